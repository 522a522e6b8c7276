#include "agent/init/address_keeper.hpp"

#include "agent/init/route_netlink.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>

namespace ductl::agent::init {
namespace {

using netboot::Ipv4;

constexpr Ipv4 kEverybody = 0xffffffff;

sockaddr_in endpoint(Ipv4 address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address);
  out.sin_port = htons(port);
  return out;
}

netboot::Descriptor open_client_port(const std::string& interface) {
  netboot::Descriptor out(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_in any = endpoint(0, netboot::dhcp::kClientPort);
  const int least = 1;
  (void)::setsockopt(out.get(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), static_cast<socklen_t>(interface.size()));
  (void)::setsockopt(out.get(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least); // nobody reads it
  (void)::bind(out.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any);
  return out;
}

std::uint32_t random_number() {
  std::uint32_t number = 1;
  (void)!::getrandom(&number, sizeof number, GRND_NONBLOCK); // a fixed one will do: a transaction also needs our MAC
  return number;
}

} // namespace

AddressKeeper::AddressKeeper(std::string interface, LinkSocket socket, DhcpClient client)
    : interface_(std::move(interface)),
      socket_(std::move(socket)),
      client_(std::move(client)),
      port_(open_client_port(interface_)) {}

Expected<std::unique_ptr<AddressKeeper>> AddressKeeper::open(const std::string& interface, const netboot::Mac& mac, Ipv4 wanted) {
  auto socket = LinkSocket::open(interface);
  if (!socket) return tl::unexpected(socket.error());
  DhcpClient client(mac, wanted, random_number() ^ mac[5], Clock::now());
  return std::unique_ptr<AddressKeeper>(new AddressKeeper(interface, std::move(*socket), std::move(client)));
}

Expected<void> AddressKeeper::take_lease() {
  const std::optional<Lease>& given = client_.lease();
  if (!given || given == set_) return {};
  if (set_ && set_->address != given->address)
    return fail(ErrorCode::kBootServer,
                fmt::format("this duck was {} and is given {} now", inventory::to_string(set_->address),
                            inventory::to_string(given->address)),
                interface_, "it restarts to take it; was the inventory changed?");
  if (auto set = set_address(interface_, given->address, given->netmask); !set) return set;
  set_ = given;
  return {};
}

Expected<void> AddressKeeper::serve(Duration span) {
  const bool had_lease = set_.has_value();
  const Instant end = Clock::now() + span;
  for (Instant now = Clock::now(); now < end; now = Clock::now()) {
    for (const DhcpClient::Message& message : client_.poll(now))
      (void)socket_.send({message.from, message.to, netboot::dhcp::kClientPort, netboot::dhcp::kServerPort}, message.bytes);
    const Duration wait = std::min(end, client_.deadline()) - now;
    pollfd readable{socket_.descriptor(), POLLIN, 0};
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count() + 1;
    (void)::poll(&readable, 1, static_cast<int>(std::clamp<std::int64_t>(milliseconds, 1, 60'000)));
    while (const auto message = socket_.receive()) client_.receive(*message, Clock::now());
    if (auto taken = take_lease(); !taken) return taken;
    if (!had_lease && set_) return {};
  }
  return {};
}

void AddressKeeper::announce(const Announcement& announcement, Ipv4 host) {
  const std::string text = announcement_text(announcement);
  if (!set_ || host == 0) {
    const Ipv4 from = set_ ? set_->address : 0;
    (void)socket_.send({from, kEverybody, kAnnouncementPort, kAnnouncementPort}, netboot::bytes_of(text));
    return;
  }
  const netboot::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_in to = endpoint(host, kAnnouncementPort);
  (void)!::sendto(socket.get(), text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

} // namespace ductl::agent::init
