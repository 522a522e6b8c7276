// Bytes to requests and answers to bytes, for one connection.
//
// Everything here belongs to the network thread, except the Outbox (its own lock) through which the handler's thread hands
// over what it writes. A connection has at most one read and one write pending.
#include "netboot/http/connection.hpp"

#include "netboot/http/answer.hpp"
#include "netboot/http/answer_head.hpp"
#include "netboot/http/head_scan.hpp"
#include "netboot/http/request_target.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ductl::http {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr std::size_t kReadBytes = 32 * 1024;
constexpr milliseconds kLinger{2000}; // after a refusal: how long what still comes is thrown away, so that the answer arrives

class BeastConnection final : public Connection, public std::enable_shared_from_this<BeastConnection> {
public:
  BeastConnection(tcp::socket socket, Shared& shared)
      : shared_(shared), socket_(std::move(socket)), read_deadline_(shared.io), write_deadline_(shared.io) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    const tcp::endpoint peer = socket_.remote_endpoint(ignored);
    if (!ignored) peer_ = address_text(peer);
  }

  void start() override {
    waiting_since_ = Clock::now();
    arm_read_deadline(shared_.options.header_timeout);
    start_read();
  }

  void stop() override { // whole answers on their way are still sent
    outbox_.mark_gone();
    close_after_ = true;
    if (phase_ == Phase::Head || phase_ == Phase::Body || phase_ == Phase::Drain) close();
  }

  void close() override {
    if (phase_ == Phase::Closed) return;
    phase_ = Phase::Closed;
    outbox_.mark_lost();
    read_deadline_.cancel();
    write_deadline_.cancel();
    error_code ignored;
    socket_.close(ignored);
    forget_when_done();
  }

  void abandon_unbegun() override {
    if (!handler_running_) return pump();
    handler_running_ = false;
    close();
  }

  [[nodiscard]] bool waiting() const override { return phase_ == Phase::Head; }
  [[nodiscard]] Instant waiting_since() const override { return waiting_since_; }

private:
  enum class Phase { Head, Body, Busy, Refused, Drain, Closed };

  // Reading.

  void start_read() {
    if (reading_ || phase_ == Phase::Closed) return;
    reading_ = true;
    socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](error_code ec, std::size_t bytes) {
      self->reading_ = false;
      self->on_read(ec, bytes);
    });
  }

  void on_read(error_code ec, std::size_t bytes) {
    if (phase_ == Phase::Closed) return;
    if (ec) return on_read_end(ec);
    if (phase_ == Phase::Drain || phase_ == Phase::Refused) return start_read(); // thrown away
    if (phase_ == Phase::Head && input_.size() == 0) arm_read_deadline(shared_.options.header_timeout);
    input_.commit(asio::buffer_copy(input_.prepare(bytes), asio::buffer(chunk_, bytes)));
    on_input();
  }

  void on_read_end(error_code ec) {
    if (phase_ == Phase::Busy) { // a half-closed peer may still read a whole answer; nobody streams to it
      outbox_.mark_gone();
      peer_ended_ = true;
      if (ec != asio::error::eof) close();
      return;
    }
    if (phase_ == Phase::Refused && ec == asio::error::eof) { // the refusal is still being written
      peer_ended_ = true;
      return;
    }
    close();
  }

  void on_input() {
    switch (phase_) {
    case Phase::Head: return on_head_input();
    case Phase::Body: return on_body_input();
    case Phase::Busy: // a next request sent early; kept up to a head's size, so that the end of the peer is seen behind it
      if (input_.size() < shared_.options.header_bytes_max) start_read();
      return;
    default: return;
    }
  }

  void on_head_input() {
    const auto data = input_.data();
    switch (scan_.scan({static_cast<const char*>(data.data()), std::min(data.size(), shared_.options.header_bytes_max)})) {
    case HeadScan::State::Bad: return refuse(400, "malformed request");
    case HeadScan::State::Complete: return on_head(scan_.head_bytes());
    case HeadScan::State::Incomplete:
      if (data.size() >= shared_.options.header_bytes_max)
        return refuse(431, fmt::format("the head of a request may have {} bytes", shared_.options.header_bytes_max));
      return start_read();
    }
  }

  void on_head(std::size_t head_bytes) {
    scan_.reset();
    parser_.emplace();
    parser_->header_limit(
        static_cast<std::uint32_t>(head_bytes + 1024)); // our own limit was checked already; the rest bounds trailers
    parser_->body_limit(shared_.options.body_bytes_max);
    error_code ec;
    const std::size_t used = parser_->put(asio::buffer(input_.data(), head_bytes), ec);
    input_.consume(used);
    if (ec == beast::http::error::body_limit) return refuse_body(shared_.options.body_bytes_max);
    if (ec) return refuse(400, "malformed request");
    if (!take_head()) return;
    if (parser_->is_done()) return dispatch();
    phase_ = Phase::Body;
    parser_->eager(true);
    if (beast::iequals(parser_->get()[beast::http::field::expect], "100-continue")) {
      outbox_.put("HTTP/1.1 100 Continue\r\n\r\n");
      pump();
    }
    arm_read_deadline(shared_.options.body_timeout);
    on_body_input();
  }

  // Fills request_ from the parsed head; false when the request was refused.
  bool take_head() {
    const auto& head = parser_->get();
    version_ = head.version();
    keep_alive_ = parser_->keep_alive();
    head_only_ = head.method() == beast::http::verb::head;
    if (version_ != 10 && version_ != 11) return refuse(505, "HTTP/1.0 and HTTP/1.1 are spoken here"), false;
    if (version_ == 11 && head.count(beast::http::field::host) != 1) return refuse(400, "a request has one Host header"), false;
    if (head.count(beast::http::field::content_length) > 1) return refuse(400, "more than one Content-Length"), false;
    if (head.count(beast::http::field::transfer_encoding) != 0 && !parser_->chunked())
      return refuse(501, "of transfer encodings only chunked is known"), false;
    const auto target = parse_request_target({head.target().data(), head.target().size()});
    if (!target) return refuse(400, "malformed request target"), false;
    request_ = Request{};
    request_.method = head_only_ ? "GET" : std::string(head.method_string());
    request_.path = target->path;
    request_.query = target->query;
    request_.peer = peer_;
    for (const auto& field : head) {
      std::string name(field.name_string());
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      std::string& value = request_.headers[name];
      value += (value.empty() ? "" : ", ") + std::string(field.value());
    }
    return admit();
  }

  bool admit() {
    if (!shared_.options.admit) return true;
    Admission admission = shared_.options.admit(request_);
    if (admission.status != 0) return refuse_with(admission.status, std::move(admission.body)), false;
    const std::size_t body_max = admission.body_bytes_max.value_or(shared_.options.body_bytes_max);
    const auto length = parser_->content_length();
    if (length && *length > body_max) return refuse_body(body_max), false;
    parser_->body_limit(body_max);
    return true;
  }

  void on_body_input() {
    while (!parser_->is_done() && input_.size() != 0) {
      error_code ec;
      const std::size_t used = parser_->put(input_.data(), ec);
      input_.consume(used);
      if (ec == beast::http::error::need_more) break;
      if (ec == beast::http::error::body_limit) return refuse(413, "the body is larger than allowed");
      if (ec) return refuse(400, "malformed body");
    }
    if (parser_->is_done()) return dispatch();
    if (input_.size() > shared_.options.header_bytes_max + kReadBytes)
      return refuse(400, "malformed body"); // an endless chunk head
    start_read();
  }

  // Handling.

  void dispatch() {
    read_deadline_.cancel();
    ++read_deadline_number_;
    phase_ = Phase::Busy;
    handler_running_ = true;
    if (!keep_alive_) close_after_ = true;
    request_.body = std::move(parser_->get().body());
    parser_.reset();
    on_input(); // watch for the peer's end
    shared_.pool.submit([self = shared_from_this()] { self->run_handler(); });
  }

  // Handler's thread, up to handler_ended().
  void run_handler() {
    Answer answer(outbox_, {version_, keep_alive_, head_only_},
                  [this] { asio::post(shared_.io, [self = shared_from_this()] { self->pump(); }); });
    bool failed = false;
    try {
      shared_.handler(request_, answer);
    } catch (...) { // a handler's bug costs its own request only
      failed = true;
    }
    request_ = Request{};
    const bool whole = answer.finish(failed);
    asio::post(shared_.io, [self = shared_from_this(), whole] { self->handler_ended(whole); });
  }

  void handler_ended(bool answered_whole) {
    handler_running_ = false;
    if (!answered_whole) close_after_ = true;
    if (phase_ == Phase::Closed)
      forget_when_done();
    else
      pump();
  }

  void refuse(int status, std::string_view message) { refuse_with(status, error_body(status, message)); }

  void refuse_body(std::size_t bytes_max) { refuse(413, fmt::format("a body may have {} bytes here", bytes_max)); }

  void refuse_with(int status, std::string body) {
    phase_ = Phase::Refused;
    close_after_ = true;
    input_.consume(input_.size());
    parser_.reset();
    outbox_.put(head_text(status, {.keep_alive = false}, "application/json", {}, body.size()));
    if (!head_only_) outbox_.put(std::move(body));
    arm_read_deadline(shared_.options.write_timeout);
    start_read();
    pump();
  }

  // Writing.

  void pump() {
    if (writing_ || phase_ == Phase::Closed) return;
    if (!outbox_.take(outgoing_)) return on_all_written();
    writing_ = true;
    written_ = 0;
    write_more();
  }

  void write_more() {
    arm_write_deadline();
    socket_.async_write_some(asio::buffer(outgoing_) + written_,
                             [self = shared_from_this()](error_code ec, std::size_t bytes) { self->on_written(ec, bytes); });
  }

  void on_written(error_code ec, std::size_t bytes) {
    if (phase_ == Phase::Closed) return;
    if (ec) {
      writing_ = false;
      return close();
    }
    written_ += bytes;
    if (written_ < outgoing_.size()) return write_more();
    write_deadline_.cancel();
    ++write_deadline_number_;
    writing_ = false;
    pump();
  }

  void on_all_written() {
    if (phase_ == Phase::Refused) return linger();
    if (phase_ != Phase::Busy || handler_running_) return;
    if (peer_ended_ || shared_.stopping) return close();
    if (close_after_) return linger();
    phase_ = Phase::Head;
    head_only_ = false;
    waiting_since_ = Clock::now();
    arm_read_deadline(input_.size() == 0 ? shared_.options.idle_timeout : shared_.options.header_timeout);
    on_head_input();
  }

  // Sends FIN and throws away what still comes: a close with unread input would be an RST that may overtake the answer.
  void linger() {
    if (peer_ended_ || shared_.stopping) return close();
    phase_ = Phase::Drain;
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    arm_read_deadline(kLinger);
    start_read();
  }

  // Time.

  void arm_read_deadline(milliseconds after) {
    read_deadline_.expires_after(after);
    read_deadline_.async_wait([self = shared_from_this(), number = ++read_deadline_number_](error_code ec) {
      if (!ec && number == self->read_deadline_number_) self->on_read_deadline();
    });
  }

  void on_read_deadline() {
    if (phase_ == Phase::Body) return refuse(408, "the body came too slowly");
    if (phase_ == Phase::Head && input_.size() != 0) return refuse(408, "the head came too slowly");
    close();
  }

  void arm_write_deadline() {
    write_deadline_.expires_after(shared_.options.write_timeout);
    write_deadline_.async_wait([self = shared_from_this(), number = ++write_deadline_number_](error_code ec) {
      if (!ec && number == self->write_deadline_number_) self->close();
    });
  }

  void forget_when_done() {
    if (handler_running_) return; // its end comes back here
    shared_.connections.erase(shared_from_this());
    if (shared_.on_forgotten) shared_.on_forgotten();
  }

  Shared& shared_;
  tcp::socket socket_;
  std::string peer_;
  Phase phase_ = Phase::Head;
  Instant waiting_since_{};
  asio::steady_timer read_deadline_, write_deadline_;
  std::uint64_t read_deadline_number_ = 0, write_deadline_number_ = 0; // a timer that fired before its cancel is told apart
  // reading
  bool reading_ = false, peer_ended_ = false;
  std::array<char, kReadBytes> chunk_;
  beast::flat_buffer input_;
  HeadScan scan_;
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  Request request_;
  unsigned version_ = 11;
  bool keep_alive_ = false, head_only_ = false;
  // answering
  bool handler_running_ = false, close_after_ = false, writing_ = false;
  Outbox outbox_;
  std::string outgoing_;
  std::size_t written_ = 0;
};

} // namespace

std::shared_ptr<Connection> make_connection(tcp::socket socket, Shared& shared) {
  return std::make_shared<BeastConnection>(std::move(socket), shared);
}

std::string address_text(const tcp::endpoint& endpoint) {
  return fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
}

} // namespace ductl::http
