#include "netboot/server/file_listener.hpp"

#include "inventory/clock.hpp"
#include "netboot/http/head_scan.hpp"
#include "netboot/http/request_head.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <set>
#include <sys/sendfile.h>
#include <sys/socket.h>

namespace ductl::netboot {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr std::size_t kHeadBytesMax = 8 * 1024, kNameShownMax = 100;
constexpr std::size_t kSendBytes = 256 * 1024; // at a time: then the others have their turn
constexpr milliseconds kIdleTimeout{60'000}, kHeadTimeout{10'000}, kStallTimeout{30'000}, kLinger{2'000}, kAcceptRetry{100};

class Connection;

struct Shared {
  asio::io_context& io;
  int port_index;
  const BootFiles& files;
  FileListener::Report report;
  std::set<std::shared_ptr<Connection>> connections = {};
};

// Reading -> Sending -> Reading ..., and Lingering at the end: what still comes is thrown away so that the answer arrives.
class Connection : public std::enable_shared_from_this<Connection> {
public:
  Connection(tcp::socket socket, Shared& shared) : shared_(shared), socket_(std::move(socket)), deadline_(shared.io) {
    error_code ec;
    socket_.set_option(tcp::no_delay(true), ec);
    socket_.native_non_blocking(true, ec);
    const auto peer = socket_.remote_endpoint(ec);
    if (!ec) address_ = peer.address().to_v4().to_uint();
  }

  void start() { await_request(); }
  [[nodiscard]] bool waiting() const { return state_ == State::Reading && input_.empty(); }
  [[nodiscard]] Instant since() const { return since_; }

  void close(const std::string& reason) {
    if (state_ == State::Closed) return;
    if (state_ == State::Sending) report(FetchReport::What::Failed, reason);
    state_ = State::Closed;
    deadline_.cancel();
    error_code ignored;
    socket_.close(ignored);
    shared_.connections.erase(shared_from_this());
  }

private:
  enum class State { Reading, Sending, Lingering, Closed };

  void await_request() {
    state_ = State::Reading;
    since_ = Clock::now();
    arm(input_.empty() ? kIdleTimeout : kHeadTimeout);
    take_request();
  }

  void read() {
    socket_.async_read_some(asio::buffer(chunk_),
                            [self = shared_from_this()](error_code ec, std::size_t bytes) { self->on_read(ec, bytes); });
  }

  void on_read(error_code ec, std::size_t bytes) {
    if (state_ == State::Closed) return;
    if (ec) return close("the connection ended");
    if (state_ == State::Lingering) return read();
    if (input_.empty()) arm(kHeadTimeout);
    input_.append(chunk_.data(), bytes);
    take_request();
  }

  void take_request() {
    switch (scan_.scan(std::string_view(input_).substr(0, kHeadBytesMax))) {
    case http::HeadScan::State::Bad: return refuse(400);
    case http::HeadScan::State::Incomplete: return input_.size() >= kHeadBytesMax ? refuse(431) : read();
    case http::HeadScan::State::Complete: break;
    }
    const auto head = http::parse_request_head(std::string_view(input_).substr(0, scan_.head_bytes()));
    if (!head) return refuse(head.error());
    input_.erase(0, scan_.head_bytes());
    scan_.reset();
    answer_ = answer_file_request(head->request, head->form, shared_.files);
    if (answer_.status == 404) {
      answer_.name = printable(head->request.path, kNameShownMax);
      report(FetchReport::What::Failed, "it is not served");
      answer_.name.clear();
    }
    begin_sending();
  }

  void refuse(int status) {
    answer_ = FileAnswer{};
    answer_.status = status;
    answer_.bytes = http::refusal_text(status, "not a request for a boot file");
    answer_.keep_alive = false;
    begin_sending();
  }

  void begin_sending() {
    state_ = State::Sending;
    begun_ = Clock::now();
    length_ = answer_.length;
    sent_ = 0;
    if (answer_.file) report(FetchReport::What::Begun, {});
    send();
  }

  // As much as one turn allows; goes on when the socket takes more.
  void send() {
    arm(kStallTimeout);
    if (!answer_.bytes.empty() && !send_head()) return;
    if (answer_.length == 0) return on_sent();
    auto offset = static_cast<off_t>(answer_.offset);
    const ssize_t sent = ::sendfile(socket_.native_handle(), answer_.file->descriptor(), &offset,
                                    std::min<std::uint64_t>(answer_.length, kSendBytes));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return close("the connection broke");
    if (sent > 0) {
      answer_.offset += static_cast<std::uint64_t>(sent);
      answer_.length -= static_cast<std::uint64_t>(sent);
      sent_ += static_cast<std::uint64_t>(sent);
    }
    answer_.length == 0 ? on_sent() : send_later();
  }

  bool send_head() {
    const int more = answer_.length != 0 ? MSG_MORE : 0;
    const ssize_t sent = ::send(socket_.native_handle(), answer_.bytes.data(), answer_.bytes.size(), MSG_NOSIGNAL | more);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      close("the connection broke");
      return false;
    }
    if (sent > 0) answer_.bytes.erase(0, static_cast<std::size_t>(sent));
    if (answer_.bytes.empty()) return true;
    send_later();
    return false;
  }

  void send_later() {
    socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code ec) {
      if (self->state_ != State::Sending) return;
      ec ? self->close("the connection broke") : self->send();
    });
  }

  void on_sent() {
    if (answer_.file) report(FetchReport::What::Sent, {});
    answer_.file.reset();
    if (answer_.keep_alive) return await_request();
    state_ = State::Lingering;
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    arm(kLinger);
    read();
  }

  void report(FetchReport::What what, const std::string& reason) {
    if (answer_.name.empty()) return;
    shared_.report({what, shared_.port_index, address_, answer_.name, what == FetchReport::What::Begun ? length_ : sent_,
                    std::chrono::duration<double>(Clock::now() - begun_).count(), reason});
  }

  void arm(milliseconds after) {
    deadline_.expires_after(after);
    deadline_.async_wait([self = shared_from_this(), number = ++deadline_number_](error_code ec) {
      if (!ec && number == self->deadline_number_) self->close("it took nothing for too long");
    });
  }

  Shared& shared_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  std::uint64_t deadline_number_ = 0; // one that fired before its cancel is told apart
  Ipv4 address_ = 0;
  State state_ = State::Reading;
  Instant since_{}, begun_{};
  std::array<char, 4096> chunk_{};
  std::string input_;
  http::HeadScan scan_;
  FileAnswer answer_;
  std::uint64_t length_ = 0, sent_ = 0; // of the answer's file
};

class AsioListener final : public FileListener {
public:
  AsioListener(asio::io_context& io, Descriptor listener, int port_index, const BootFiles& files, Report report)
      : shared_{io, port_index, files, std::move(report)}, acceptor_(io), retry_(io) {
    acceptor_.assign(tcp::v4(), listener.release());
    accept();
  }
  ~AsioListener() override {
    shared_.report = [](const FetchReport&) {}; // its owner goes as well
    for (const auto& connection : std::vector(shared_.connections.begin(), shared_.connections.end())) connection->close({});
  }

private:
  void accept() {
    acceptor_.async_accept([this](error_code ec, tcp::socket socket) {
      if (ec == asio::error::operation_aborted) return; // `this` may be gone
      if (!ec) {
        welcome(std::move(socket));
        return accept();
      }
      retry_.expires_after(kAcceptRetry); // out of descriptors, most likely
      retry_.async_wait([this](error_code cancelled) {
        if (!cancelled) accept();
      });
    });
  }

  void welcome(tcp::socket socket) {
    if (shared_.connections.size() >= kConnectionsMax && !make_room()) return; // closes it: iPXE and UEFI come again
    const auto connection = std::make_shared<Connection>(std::move(socket), shared_);
    shared_.connections.insert(connection);
    connection->start();
  }

  bool make_room() {
    std::shared_ptr<Connection> longest;
    for (const auto& connection : shared_.connections)
      if (connection->waiting() && (!longest || connection->since() < longest->since())) longest = connection;
    if (longest) longest->close({});
    return longest != nullptr;
  }

  Shared shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
};

} // namespace

std::unique_ptr<FileListener> FileListener::start(asio::io_context& io, Descriptor listener, int port_index,
                                                  const BootFiles& files, Report report) {
  return std::make_unique<AsioListener>(io, std::move(listener), port_index, files, std::move(report));
}

} // namespace ductl::netboot
