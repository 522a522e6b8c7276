// One connection of the HTTP server, and what all of them share. Network thread, where nothing else is said.
#pragma once

#include "inventory/clock.hpp"
#include "netboot/http/http_server.hpp"
#include "netboot/http/worker_pool.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <set>

namespace ductl::http {

class Connection;

struct Shared {
  Shared(const ServerOptions& server_options, Handler server_handler)
      : options(server_options), handler(std::move(server_handler)), pool(server_options.workers) {}
  ServerOptions options;
  Handler handler;
  boost::asio::io_context io{1};
  std::set<std::shared_ptr<Connection>> connections;
  bool stopping = false;
  std::function<void()> on_forgotten; // called when a connection has left `connections`
  WorkerPool pool;                    // last: its jobs hold connections
};

class Connection {
public:
  virtual ~Connection() = default;
  virtual void start() = 0;
  virtual void stop() = 0;                                 // whole answers on their way are still sent, nothing new begins
  virtual void close() = 0;                                // at once; leaves Shared::connections when no handler runs for it
  virtual void abandon_unbegun() = 0;                      // close() if its handler has not ended: the pool dropped it
  [[nodiscard]] virtual bool waiting() const = 0;          // for a request, since
  [[nodiscard]] virtual Instant waiting_since() const = 0; // this time
};

[[nodiscard]] std::shared_ptr<Connection> make_connection(boost::asio::ip::tcp::socket socket, Shared& shared);

[[nodiscard]] std::string address_text(const boost::asio::ip::tcp::endpoint& endpoint); // "127.0.0.1:7411"

} // namespace ductl::http
