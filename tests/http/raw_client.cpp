#include "tests/http/raw_client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace ductl::http {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

RawClient::RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

RawClient::~RawClient() { close(); }

void RawClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void RawClient::reset() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

void RawClient::finish_sending() { ::shutdown(fd_, SHUT_WR); }

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool RawClient::fill(steady_clock::time_point until) {
  const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count();
  pollfd ready{fd_, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) <= 0) return false;
  std::array<char, 65536> bytes;
  const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
  if (got <= 0) return false;
  input_.append(bytes.data(), static_cast<std::size_t>(got));
  return true;
}

std::string RawClient::read_some(milliseconds timeout) {
  if (input_.empty()) fill(steady_clock::now() + timeout);
  return std::exchange(input_, {});
}

bool RawClient::closed_within(milliseconds timeout) {
  const auto until = steady_clock::now() + timeout;
  while (steady_clock::now() < until)
    if (!fill(until)) return steady_clock::now() < until;
  return false;
}

std::optional<RawAnswer> RawClient::read_answer(milliseconds timeout) {
  const auto until = steady_clock::now() + timeout;
  std::size_t end = 0;
  while ((end = input_.find("\r\n\r\n")) == std::string::npos)
    if (!fill(until)) return std::nullopt;
  RawAnswer answer;
  answer.head = input_.substr(0, end + 4);
  input_.erase(0, end + 4);
  answer.status = std::atoi(answer.head.c_str() + 9);
  const auto take = [&](std::size_t bytes) -> std::optional<std::string> {
    while (input_.size() < bytes)
      if (!fill(until)) return std::nullopt;
    std::string out = input_.substr(0, bytes);
    input_.erase(0, bytes);
    return out;
  };
  if (const std::size_t at = answer.head.find("Content-Length: "); at != std::string::npos) {
    auto body = take(static_cast<std::size_t>(std::atol(answer.head.c_str() + at + 16)));
    if (!body) return std::nullopt;
    answer.body = *body;
  } else if (answer.head.find("Transfer-Encoding: chunked") != std::string::npos) {
    for (;;) {
      while ((end = input_.find("\r\n")) == std::string::npos)
        if (!fill(until)) return std::nullopt;
      const std::size_t bytes = std::strtoul(input_.c_str(), nullptr, 16);
      auto chunk = take(end + 2 + bytes + 2);
      if (!chunk) return std::nullopt;
      if (bytes == 0) break;
      answer.body += chunk->substr(end + 2, bytes);
    }
  }
  return answer;
}

} // namespace ductl::http
