// The one HTTP/1.1 server of the house: bounded, with keep-alive, streaming and disconnect detection.
//
// Beast is used in connection.cpp and answer_head.cpp only. One network thread moves bytes; each request runs `handler` on a
// worker thread of the server's own pool, where it may block. Limits are enforced while bytes arrive, before anything is parsed
// further: 431 for large headers, 413 for large bodies (never buffered), 408 for slow ones. What is not plainly HTTP/1.1
// (bare LF, folded headers, two lengths, ...) is 400 and the end of the connection. The server never sees the file system.
#pragma once

#include "inventory/error.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::http {

struct Request {
  std::string method; // "GET"; a HEAD arrives as GET, and only the head of its answer is sent
  std::string path;   // without the query, percent-decoded
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers; // names in lower case; repeated ones joined with ", "
  std::string body;
  std::string peer; // "127.0.0.1:40112"

  [[nodiscard]] std::string_view header(std::string_view lower_case_name) const; // "" when absent
  // The token of "Authorization: Bearer TOKEN", "" when absent.
  [[nodiscard]] std::string_view bearer() const;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// The answer being written; used by one thread, for the duration of the handler's call.
class Response {
public:
  virtual ~Response() = default;
  // A whole answer. Exactly one of send() or begin_stream() per request; a handler that does neither, or throws, is a 500.
  virtual void send(int status, std::string_view content_type, std::string body, const Headers& extra = {}) = 0;
  // A streamed answer (chunked). write() blocks while the peer is slow, returns false once it is gone; further writes are
  // dropped.
  virtual void begin_stream(int status, std::string_view content_type, const Headers& extra = {}) = 0;
  virtual bool write(std::string_view chunk) = 0;
  // True as soon as the peer has closed (FIN or RST), also while nothing is being written; true as well once the server stops.
  [[nodiscard]] virtual bool peer_gone() = 0;
};

using Handler = std::function<void(const Request&, Response&)>;

// What is known from a request's head alone, before its body is taken in.
struct Admission {
  int status = 0;                            // 0 = go on; else answered at once, with `body` as JSON, and the connection ends
  std::string body;                          // of a refusal
  std::optional<std::size_t> body_bytes_max; // tighter than ServerOptions::body_bytes_max for this request
};

struct ServerOptions {
  std::uint32_t address = 0x7f000001; // host byte order
  std::uint16_t port = 0;             // 0 = kernel-chosen
  std::size_t header_bytes_max = 16 * 1024;
  std::size_t body_bytes_max = 8u << 20;
  // The header's time runs from its first byte (idle_timeout runs before it, header_timeout on a fresh connection), the body's
  // from the header's end; write_timeout is the longest that a peer may take nothing of an answer.
  std::chrono::milliseconds header_timeout{10'000}, body_timeout{60'000}, idle_timeout{60'000}, write_timeout{60'000};
  int connections_max = 256; // beyond it the connection that has waited longest without a request makes room
  int workers = 8;           // handlers that may run (and block) at once
  std::function<Admission(const Request& head)> admit; // optional; on the network thread, must not block
};

class Server {
public:
  // Binds and starts. kAddressInUse names the address and, where it can be told, who holds it.
  [[nodiscard]] static Expected<std::unique_ptr<Server>> start(const ServerOptions& options, Handler handler);
  virtual ~Server() = default; // stop()s
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // No new connections; handlers in progress see peer_gone(); whole answers already given are still sent; returns when all
  // have ended. Any thread but a handler's.
  virtual void stop() = 0;
};

// Equal in time that does not depend on where they differ.
[[nodiscard]] bool equal_secrets(std::string_view a, std::string_view b);

} // namespace ductl::http
