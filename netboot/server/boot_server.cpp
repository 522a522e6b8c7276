#include "netboot/server/boot_server.hpp"

#include "netboot/event_limit.hpp"
#include "netboot/ipv4_udp.hpp"
#include "netboot/router/advertisement.hpp"
#include "netboot/server/file_listener.hpp"
#include "netboot/server/network_port.hpp"
#include "netboot/server/privileges.hpp"
#include "netboot/tftp/sessions.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

namespace ductl::netboot {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Watched = asio::posix::stream_descriptor;

constexpr std::size_t kBufferBytes = 9216; // no client sends more in a datagram that we understand
constexpr int kReadsAtATime = 64;          // of one socket, before the others have their turn
constexpr std::size_t kTftpHeaderBytes = 20 + 8 + 4;

// "vmlinuz" of "sha256/HEX/vmlinuz".
std::string_view base_name(std::string_view name) { return name.substr(name.rfind('/') + 1); }

class AsioBootServer final : public BootServer {
public:
  AsioBootServer(BootPlan plan, BootFiles files, BootEvents& events)
      : plan_(std::move(plan)),
        files_(std::move(files)),
        listener_(events),
        watch_(plan_, events_),
        responder_(plan_, watch_, events_),
        sessions_(files_, events_, [this](Ipv4 address) { return name_of(address); }),
        tftp_timer_(io_) {}

  Expected<void> open_ports() {
    for (const BootPort& port : plan_.ports) {
      auto opened = NetworkPort::open(port, plan_.http_port);
      if (!opened) return tl::unexpected(opened.error());
      ports_.push_back(std::move(*opened));
    }
    return {};
  }

  Expected<void> run() override {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    if (auto dropped = drop_privileges(); !dropped) return dropped;
    watch_sockets();
    io_.run();
    return {};
  }

  void stop() override { io_.stop(); }
  void agent_seen(int duck) override {
    asio::post(io_, [this, duck] { watch_.agent_seen(duck); });
  }

  [[nodiscard]] BootCounts counts() const override {
    const auto& d = responder_.counts();
    const auto& t = sessions_.counts();
    BootCounts all = counts_;
    all.dhcp_received = d.received, all.dhcp_sent = d.sent, all.dhcp_malformed = d.malformed, all.unknown_macs = d.unknown;
    all.tftp_requests = t.requests, all.tftp_sent = t.sent, all.tftp_probes = t.probes, all.tftp_failed = t.failed;
    return all;
  }

private:
  // Sockets.

  void watch_sockets() {
    for (int i = 0; i < static_cast<int>(ports_.size()); ++i) {
      const NetworkPort& port = ports_[i];
      watch(port.dhcp(), [this, i](int fd) { return on_dhcp(fd, i, dhcp::kServerPort); });
      watch(port.proxy(), [this, i](int fd) { return on_dhcp(fd, i, dhcp::kProxyPort); });
      watch(port.tftp(), [this, i](int fd) { return on_tftp_request(fd, i); });
      if (port.overheard() >= 0) watch(port.overheard(), [this, i](int fd) { return on_overheard(fd, i); });
      if (port.solicitations() >= 0) watch(port.solicitations(), [this, i](int fd) { return on_solicitation(fd, i); });
      listeners_.push_back(FileListener::start(io_, Descriptor(::fcntl(port.http(), F_DUPFD_CLOEXEC, 0)), i, files_,
                                               [this](const FetchReport& report) { on_fetch(report); }));
    }
  }

  // Calls `read` as often as the socket has something; `read` is false when it has not. Asio closes what it watches, so it gets
  // a descriptor of its own.
  void watch(int fd, std::function<bool(int)> read) {
    watched_.push_back(std::make_unique<Watched>(io_, ::fcntl(fd, F_DUPFD_CLOEXEC, 0)));
    wait(*watched_.back(), std::move(read));
  }
  void wait(Watched& socket, std::function<bool(int)> read) {
    socket.async_wait(Watched::wait_read, [this, &socket, read = std::move(read)](error_code ec) mutable {
      if (ec) return;
      for (int i = 0; i < kReadsAtATime && read(socket.native_handle()); ++i) {}
      after_event();
      wait(socket, std::move(read));
    });
  }

  bool on_dhcp(int fd, int port, std::uint16_t to_port) {
    const auto got = receive_datagram(fd, buffer_);
    if (!got) return false;
    answer({ByteView(buffer_).first(got->bytes), port, to_port, got->from, got->from_port});
    return true;
  }

  bool on_overheard(int fd, int port) {
    const auto got = receive_frame(fd, buffer_);
    if (!got) return false;
    const auto datagram = read_ipv4_udp(ByteView(buffer_).first(got->bytes));
    if (datagram && datagram->ends.to_port == dhcp::kClientPort)
      answer({datagram->payload, port, dhcp::kClientPort, datagram->ends.from, datagram->ends.from_port});
    return true;
  }

  void answer(const dhcp::Incoming& in) {
    for (const dhcp::Outgoing& out : responder_.receive(in, Clock::now()))
      if (!ports_[out.port_index].send(out))
        trouble(out.port_index, out.duck_index,
                fmt::format("an answer to {} was not sent: {}", plan_.ducks[out.duck_index].name, std::strerror(errno)));
  }

  bool on_solicitation(int fd, int port) {
    const auto got = receive_frame(fd, buffer_);
    if (!got) return false;
    if (!duck_of(plan_, got->from) || !is_router_solicitation(ByteView(buffer_).first(got->bytes))) return true;
    if (ports_[port].advertise_router())
      ++counts_.router_advertisements;
    else
      trouble(port, -1, fmt::format("a router advertisement was not sent: {}", std::strerror(errno)));
    return true;
  }

  // TFTP.

  bool on_tftp_request(int fd, int port) {
    const auto got = receive_datagram(fd, buffer_);
    if (!got) return false;
    auto opened = sessions_.open({port, got->from, got->from_port}, ByteView(buffer_).first(got->bytes),
                                 ports_[port].mtu() - kTftpHeaderBytes, Clock::now());
    if (opened.packets.empty()) return true;
    auto socket = ports_[port].connect_to(got->from, got->from_port);
    if (!socket) {
      trouble(port, -1, socket.error().message);
      if (opened.session) sessions_.fail(*opened.session, socket.error().message, Clock::now());
      return true;
    }
    send_all(socket->get(), opened.packets);
    if (opened.session) watch_session(*opened.session, std::move(*socket));
    return true;
  }

  void watch_session(tftp::Sessions::Id id, Descriptor socket) {
    auto& watched = transfers_[id] = std::make_unique<Watched>(io_, socket.release());
    wait_session(id, *watched);
  }

  void wait_session(tftp::Sessions::Id id, Watched& socket) {
    socket.async_wait(Watched::wait_read, [this, id, &socket](error_code ec) {
      if (ec) return; // closed: `socket` is gone
      for (int i = 0; i < kReadsAtATime; ++i) {
        const auto got = receive_datagram(socket.native_handle(), buffer_);
        if (!got) break;
        send_all(socket.native_handle(), sessions_.feed(id, ByteView(buffer_).first(got->bytes), Clock::now()));
      }
      after_event();
      if (transfers_.contains(id)) wait_session(id, socket);
    });
  }

  // What the kernel does not take now is lost, as on any wire, and is sent again when its time comes.
  static void send_all(int fd, const std::vector<Bytes>& packets) {
    for (const Bytes& packet : packets) (void)::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL);
  }

  void on_tftp_time() {
    const Instant now = Clock::now();
    for (const auto id : sessions_.due(now)) {
      const auto found = transfers_.find(id);
      if (found != transfers_.end()) send_all(found->second->native_handle(), sessions_.tick(id, now));
    }
    after_event();
  }

  void arm_tftp_timer() {
    const auto deadline = sessions_.deadline();
    if (deadline == armed_) return;
    armed_ = deadline;
    if (!deadline) return (void)tftp_timer_.cancel();
    tftp_timer_.expires_at(*deadline);
    tftp_timer_.async_wait([this](error_code ec) {
      if (ec) return;
      armed_.reset();
      on_tftp_time();
    });
  }

  // Events.

  void after_event() {
    std::erase_if(transfers_, [&](const auto& transfer) { return !sessions_.running(transfer.first); });
    arm_tftp_timer();
    hand_over_events();
  }

  void hand_over_events() {
    // on_event may not call us, but file events call the watch, which adds more.
    for (std::size_t i = 0; i < events_.size(); ++i) {
      BootEvent event = std::move(events_[i]);
      if (event.duck_index < 0 && event.address != 0) event.duck_index = responder_.duck_at(event.address).value_or(-1);
      if (event.duck_index >= 0) event.mac = plan_.ducks[event.duck_index].mac;
      const std::string_view file = base_name(event.file);
      if (event.kind == BootEventKind::FileSent && event.duck_index >= 0 &&
          (file == plan_.names.kernel || file == plan_.names.uki))
        watch_.kernel_fetched(event.duck_index);
      if (limit_.admit(event)) listener_.on_event(event);
    }
    events_.clear();
  }

  void on_fetch(const FetchReport& report) {
    BootEvent event{.when = Clock::now(),
                    .port_index = report.port_index,
                    .mac = {},
                    .address = report.address,
                    .file = report.file,
                    .text = {}};
    const std::string who = name_of(report.address);
    switch (report.what) {
    case FetchReport::What::Begun:
      event.kind = BootEventKind::FileBegun;
      event.text = fmt::format("{} fetches {} by HTTP", who, base_name(report.file));
      break;
    case FetchReport::What::Sent:
      ++counts_.http_sent;
      event.kind = BootEventKind::FileSent;
      event.text =
          fmt::format("{} has {} ({} bytes by HTTP in {:.1f} s)", who, base_name(report.file), report.bytes, report.seconds);
      break;
    case FetchReport::What::Failed:
      ++counts_.http_failed;
      event.kind = BootEventKind::FileFailed;
      event.text = fmt::format("HTTP: {} to {} ended after {} bytes: {}", report.file, who, report.bytes, report.reason);
      break;
    }
    events_.push_back(std::move(event));
    hand_over_events();
  }

  [[nodiscard]] std::string name_of(Ipv4 address) const {
    const auto duck = responder_.duck_at(address);
    return duck ? plan_.ducks[*duck].name : inventory::to_string(address);
  }

  void trouble(int port, int duck, std::string text) {
    events_.push_back({.kind = BootEventKind::Trouble,
                       .when = Clock::now(),
                       .port_index = port,
                       .duck_index = duck,
                       .mac = {},
                       .address = 0,
                       .file = {},
                       .text = std::move(text)});
  }

  const BootPlan plan_;
  const BootFiles files_;
  BootEvents& listener_;
  std::vector<BootEvent> events_;
  EventLimit limit_;
  BootWatch watch_;
  dhcp::Responder responder_;
  tftp::Sessions sessions_;
  BootCounts counts_;
  std::array<std::byte, kBufferBytes> buffer_{};
  std::vector<NetworkPort> ports_;
  asio::io_context io_{1};
  asio::steady_timer tftp_timer_;
  std::optional<Instant> armed_;
  std::vector<std::unique_ptr<Watched>> watched_;
  std::map<tftp::Sessions::Id, std::unique_ptr<Watched>> transfers_;
  std::vector<std::unique_ptr<FileListener>> listeners_;
};

} // namespace

Expected<std::unique_ptr<BootServer>> BootServer::open(BootPlan plan, BootFiles files, BootEvents& events) {
  if (auto sound = check_plan(plan); !sound) return tl::unexpected(sound.error());
  auto server = std::make_unique<AsioBootServer>(std::move(plan), std::move(files), events);
  if (auto opened = server->open_ports(); !opened) return tl::unexpected(opened.error());
  return server;
}

} // namespace ductl::netboot
