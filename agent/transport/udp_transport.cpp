#include "agent/transport/udp_transport.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ductl::agent {
namespace {

constexpr std::size_t kIpUdpBytes = 28;
constexpr std::size_t kLoopbackFrameBytes = 60u << 10;
constexpr std::size_t kEthernetMtu = 1500;
constexpr std::size_t kFrameBytesMax = 64u << 10; // no UDP datagram is longer
constexpr std::size_t kBurst = 32;

class FileDescriptor {
public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

private:
  int fd_;
};

sockaddr_in to_sockaddr(const Endpoint& endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  address.sin_addr.s_addr = htonl(endpoint.address);
  return address;
}

Endpoint to_endpoint(const sockaddr_in& address) {
  return {.address = ntohl(address.sin_addr.s_addr), .port = ntohs(address.sin_port)};
}

std::string text_of(const Endpoint& e) {
  return fmt::format("{}.{}.{}.{}:{}", e.address >> 24, e.address >> 16 & 255, e.address >> 8 & 255, e.address & 255, e.port);
}

bool is_loopback(std::uint32_t address) { return address >> 24 == 127; }

// MTU of the interface that has this address; Ethernet's when none says so.
std::size_t interface_mtu(int socket, std::uint32_t address) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return kEthernetMtu;
  std::size_t mtu = kEthernetMtu;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in own{};
    std::memcpy(&own, i->ifa_addr, sizeof own);
    if (ntohl(own.sin_addr.s_addr) != address) continue;
    ifreq request{};
    std::strncpy(request.ifr_name, i->ifa_name, IFNAMSIZ - 1);
    if (::ioctl(socket, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0) mtu = static_cast<std::size_t>(request.ifr_mtu);
    break;
  }
  ::freeifaddrs(all);
  return mtu;
}

// Asks for a buffer beyond the system's limit first (root may), then within it. Returns the kernel's own figure.
std::size_t set_buffer(int socket, int force_option, int option, std::size_t bytes) {
  const int wanted = static_cast<int>(bytes);
  if (::setsockopt(socket, SOL_SOCKET, force_option, &wanted, sizeof wanted) != 0) {
    ::setsockopt(socket, SOL_SOCKET, option, &wanted, sizeof wanted); // smaller than asked is no failure: callers look
  }
  int given = 0;
  socklen_t length = sizeof given;
  ::getsockopt(socket, SOL_SOCKET, option, &given, &length);
  return static_cast<std::size_t>(std::max(given, 0));
}

class KernelUdp final : public UdpTransport {
public:
  KernelUdp(FileDescriptor socket, FileDescriptor wake, Endpoint local, std::size_t mtu, std::size_t receive_buffer_bytes)
      : socket_(std::move(socket)),
        wake_(std::move(wake)),
        local_(local),
        mtu_(mtu),
        receive_buffer_bytes_(receive_buffer_bytes),
        storage_(new std::byte[kBurst * kFrameBytesMax]) {
    free_.reserve(kBurst);
    for (std::size_t slot = 0; slot < kBurst; ++slot) free_.push_back(slot);
  }

  std::size_t mtu() const override { return mtu_; }
  Endpoint local() const override { return local_; }
  std::size_t receive_buffer_bytes() const override { return receive_buffer_bytes_; }
  int wait_descriptor() const override { return socket_.get(); }

  std::size_t send(std::span<const OutgoingFrame> burst) override {
    std::size_t taken = 0;
    send_blocked_ = false;
    while (taken < burst.size() && !send_blocked_) taken += send_some(burst.subspan(taken));
    return taken;
  }

  std::size_t receive(std::span<IncomingFrame> burst) override {
    const std::size_t room = std::min(burst.size(), free_.size());
    if (room == 0) return 0;
    for (std::size_t i = 0; i < room; ++i) {
      receive_parts_[i] = {.iov_base = slot_bytes(free_[free_.size() - 1 - i]), .iov_len = kFrameBytesMax};
      receive_messages_[i].msg_hdr = {.msg_name = &receive_from_[i],
                                      .msg_namelen = sizeof(sockaddr_in),
                                      .msg_iov = &receive_parts_[i],
                                      .msg_iovlen = 1,
                                      .msg_control = nullptr,
                                      .msg_controllen = 0,
                                      .msg_flags = 0};
    }
    int came = 0;
    do {
      came = ::recvmmsg(socket_.get(), receive_messages_.data(), static_cast<unsigned>(room), MSG_DONTWAIT, nullptr);
    } while (came < 0 && errno == EINTR);
    for (int i = 0; i < came; ++i) {
      const std::size_t slot = free_.back();
      free_.pop_back();
      burst[i] = {
          .from = to_endpoint(receive_from_[i]), .bytes = {slot_bytes(slot), receive_messages_[i].msg_len}, .handle = slot};
    }
    return static_cast<std::size_t>(std::max(came, 0));
  }

  void release(std::span<const IncomingFrame> burst) override {
    for (const IncomingFrame& frame : burst) free_.push_back(frame.handle);
    assert(free_.size() <= kBurst);
  }

  void wait(Duration timeout) override {
    const short events = send_blocked_ ? POLLIN | POLLOUT : POLLIN;
    std::array<pollfd, 2> polls{pollfd{.fd = socket_.get(), .events = events, .revents = 0},
                                pollfd{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    timeout = std::max(timeout, Duration::zero());
    const timespec limit{.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000),
                         .tv_nsec = timeout.count() % 1'000'000'000};
    if (::ppoll(polls.data(), polls.size(), &limit, nullptr) > 0 && (polls[1].revents & POLLIN) != 0) {
      std::uint64_t wakes = 0;
      [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &wakes, sizeof wakes);
    }
  }

  void wake() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one); // a full counter wakes as well
  }

private:
  std::byte* slot_bytes(std::size_t slot) { return storage_.get() + slot * kFrameBytesMax; }

  // One sendmmsg call. A frame that the kernel refuses for good (no route, too long) counts as taken: it is lost, like any other
  // frame may be, and must not stop those behind it.
  std::size_t send_some(std::span<const OutgoingFrame> burst) {
    const std::size_t count = std::min(burst.size(), kBurst);
    for (std::size_t i = 0; i < count; ++i) {
      const OutgoingFrame& frame = burst[i];
      send_to_[i] = to_sockaddr(frame.to);
      send_parts_[i][0] = {.iov_base = const_cast<std::byte*>(frame.head.data()), .iov_len = frame.head.size()};
      send_parts_[i][1] = {.iov_base = const_cast<std::byte*>(frame.body.data()), .iov_len = frame.body.size()};
      send_messages_[i].msg_hdr = {.msg_name = &send_to_[i],
                                   .msg_namelen = sizeof(sockaddr_in),
                                   .msg_iov = send_parts_[i].data(),
                                   .msg_iovlen = 2,
                                   .msg_control = nullptr,
                                   .msg_controllen = 0,
                                   .msg_flags = 0};
    }
    const int sent = ::sendmmsg(socket_.get(), send_messages_.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) return 0;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
      send_blocked_ = true;
      return 0;
    }
    return 1;
  }

  FileDescriptor socket_, wake_;
  Endpoint local_;
  std::size_t mtu_, receive_buffer_bytes_;
  bool send_blocked_ = false;
  std::unique_ptr<std::byte[]> storage_;
  std::vector<std::size_t> free_;
  std::array<mmsghdr, kBurst> receive_messages_{}, send_messages_{};
  std::array<iovec, kBurst> receive_parts_{};
  std::array<std::array<iovec, 2>, kBurst> send_parts_{};
  std::array<sockaddr_in, kBurst> receive_from_{}, send_to_{};
};

tl::unexpected<Error> bind_failure(const Endpoint& wanted, int cause) {
  if (cause == EADDRINUSE) {
    return fail(ErrorCode::kAddressInUse, fmt::format("UDP address {} is in use by another program", text_of(wanted)),
                text_of(wanted),
                fmt::format("`ss -ulpn 'sport = :{}'` names that program; stop it, or choose another port in the inventory",
                            wanted.port));
  }
  return fail(ErrorCode::kAddressInUse, fmt::format("cannot bind UDP address {}: {}", text_of(wanted), std::strerror(cause)),
              text_of(wanted), "the address must belong to an interface of this machine: compare with `ip address`");
}

} // namespace

Expected<std::unique_ptr<UdpTransport>> open_udp_transport(const UdpOptions& options) {
  FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  FileDescriptor wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (socket.get() < 0 || wake.get() < 0) {
    return fail(ErrorCode::kInternal, fmt::format("cannot open a UDP socket: {}", std::strerror(errno)), text_of(options.bind),
                "raise the limit of open files (`ulimit -n`)");
  }
  sockaddr_in address = to_sockaddr(options.bind);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return bind_failure(options.bind, errno);
  socklen_t length = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return bind_failure(options.bind, errno);
  const Endpoint local = to_endpoint(address);
  const std::size_t mtu = is_loopback(local.address)
                              ? kLoopbackFrameBytes
                              : std::min(interface_mtu(socket.get(), local.address) - kIpUdpBytes, kLoopbackFrameBytes);
  const std::size_t receive = set_buffer(socket.get(), SO_RCVBUFFORCE, SO_RCVBUF, options.receive_buffer_bytes);
  set_buffer(socket.get(), SO_SNDBUFFORCE, SO_SNDBUF, options.receive_buffer_bytes / 2);
  return std::make_unique<KernelUdp>(std::move(socket), std::move(wake), local, mtu, receive);
}

} // namespace ductl::agent
