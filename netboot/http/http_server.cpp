// Accepts connections, makes room when there are too many, and ends them all in order.
#include "netboot/http/answer_head.hpp"
#include "netboot/http/connection.hpp"
#include "netboot/http/port_holder.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include <mutex>
#include <thread>

namespace ductl::http {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kStopGrace{500};   // at stop(): how long given answers may take to leave
constexpr milliseconds kAcceptRetry{100}; // when out of descriptors

class AsioServer : public Server {
public:
  AsioServer(const ServerOptions& options, Handler handler)
      : shared_(options, std::move(handler)), acceptor_(shared_.io), retry_(shared_.io) {}
  ~AsioServer() override { stop(); }

  Expected<void> listen() {
    const tcp::endpoint endpoint(asio::ip::address_v4(shared_.options.address), shared_.options.port);
    error_code ec;
    acceptor_.open(tcp::v4(), ec);
    if (!ec) acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec) acceptor_.bind(endpoint, ec);
    if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
    if (!ec) port_ = acceptor_.local_endpoint(ec).port();
    if (ec) return bind_error(endpoint, ec);
    accept();
    thread_ = std::thread([this] { shared_.io.run(); });
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }

  void stop() override {
    const std::lock_guard lock(stop_mutex_);
    if (!thread_.joinable()) return;
    asio::post(shared_.io, [this] { begin_stop(); });
    shared_.pool.stop();
    asio::post(shared_.io, [this] { finish_stop(); });
    thread_.join();
    shared_.connections.clear();
  }

private:
  static tl::unexpected<Error> bind_error(const tcp::endpoint& endpoint, const error_code& ec) {
    const std::string place = address_text(endpoint);
    if (ec != asio::error::address_in_use)
      return fail(ErrorCode::kHttpServer, fmt::format("cannot listen on {}: {}", place, ec.message()), place,
                  "check that this machine has the address");
    const std::string holder = tcp_port_holder(endpoint.address().to_v4().to_uint(), endpoint.port());
    return fail(ErrorCode::kAddressInUse, fmt::format("{} is already in use{}", place, holder.empty() ? "" : " by " + holder),
                place, "stop that program, or choose another port");
  }

  void accept() {
    acceptor_.async_accept([this](error_code ec, tcp::socket socket) {
      if (shared_.stopping || ec == asio::error::operation_aborted) return;
      if (!ec) {
        welcome(std::move(socket));
        return accept();
      }
      retry_.expires_after(kAcceptRetry); // out of descriptors, most likely
      retry_.async_wait([this](error_code cancelled) {
        if (!cancelled && !shared_.stopping) accept();
      });
    });
  }

  void welcome(tcp::socket socket) {
    if (static_cast<int>(shared_.connections.size()) >= shared_.options.connections_max && !make_room()) {
      error_code ignored; // a fresh socket takes this much without waiting
      const std::string text = refusal_text(503, "too many connections", {{"Retry-After", "1"}});
      socket.non_blocking(true, ignored);
      socket.write_some(asio::buffer(text), ignored);
      return;
    }
    auto connection = make_connection(std::move(socket), shared_);
    shared_.connections.insert(connection);
    connection->start();
  }

  bool make_room() {
    std::shared_ptr<Connection> longest;
    for (const auto& connection : shared_.connections)
      if (connection->waiting() && (!longest || connection->waiting_since() < longest->waiting_since())) longest = connection;
    if (longest) longest->close();
    return longest != nullptr;
  }

  void begin_stop() {
    shared_.stopping = true;
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    for (const auto& connection : std::vector(shared_.connections.begin(), shared_.connections.end())) connection->stop();
  }

  // All handlers that began have ended and said so; what they gave gets a moment to leave.
  void finish_stop() {
    for (const auto& connection : std::vector(shared_.connections.begin(), shared_.connections.end()))
      connection->abandon_unbegun();
    if (shared_.connections.empty()) return shared_.io.stop();
    shared_.on_forgotten = [this] {
      if (shared_.connections.empty()) shared_.io.stop();
    };
    retry_.expires_after(kStopGrace);
    retry_.async_wait([this](error_code) { shared_.io.stop(); });
  }

  Shared shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  std::uint16_t port_ = 0;
  std::mutex stop_mutex_;
  std::thread thread_;
};

} // namespace

Expected<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Handler handler) {
  auto server = std::make_unique<AsioServer>(options, std::move(handler));
  if (auto listening = server->listen(); !listening) return tl::unexpected(listening.error());
  return server;
}

} // namespace ductl::http
