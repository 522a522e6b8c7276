// A TCP client that sends exactly the bytes it is told to, for tests of the server. Every wait is bounded.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ductl::http {

struct RawAnswer {
  int status = 0;
  std::string head, body;
};

class RawClient {
public:
  explicit RawClient(std::uint16_t port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes); // gives up quietly when the server has closed
  // One answer with Content-Length or chunks (joined); nothing when the server closes or `timeout` passes first.
  [[nodiscard]] std::optional<RawAnswer> read_answer(std::chrono::milliseconds timeout = std::chrono::seconds(10));
  [[nodiscard]] std::string
  read_some(std::chrono::milliseconds timeout = std::chrono::seconds(10)); // "" = closed or nothing came
  [[nodiscard]] bool closed_within(std::chrono::milliseconds timeout);     // by the server; reads what still comes
  void finish_sending();                                                   // FIN
  void reset();                                                            // RST
  void close();

private:
  bool fill(std::chrono::steady_clock::time_point until);
  int fd_ = -1;
  std::string input_;
};

} // namespace ductl::http
