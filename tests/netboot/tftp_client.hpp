// A TFTP client as a function, for tests of the server: packets and the time in, packets out. It knows windows (RFC 7440), and
// can be made as old as RFC 1350. Written from the RFCs, not from the server.
#pragma once

#include "inventory/clock.hpp"
#include "netboot/bytes.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ductl::netboot::test {

struct ClientWishes {
  std::optional<std::uint32_t> block_bytes, window_blocks;
  bool size = false;
};

class TftpClient {
public:
  explicit TftpClient(ClientWishes wishes) : wishes_(wishes) {}

  [[nodiscard]] Bytes request(const std::string& name) const;
  // Answers to a packet of the server; nothing for what is old.
  [[nodiscard]] std::vector<Bytes> feed(ByteView packet);
  [[nodiscard]] std::vector<Bytes> timed_out(); // says again where it is

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] const Bytes& file() const { return file_; }
  [[nodiscard]] std::optional<std::uint64_t> size() const { return size_; }
  [[nodiscard]] std::size_t block_bytes() const { return block_bytes_; }
  [[nodiscard]] std::uint32_t window_blocks() const { return window_blocks_; }

private:
  std::vector<Bytes> on_options(std::string_view text);
  std::vector<Bytes> on_data(std::uint16_t number, ByteView data);
  [[nodiscard]] Bytes ack() const;

  ClientWishes wishes_;
  std::size_t block_bytes_ = 512;
  std::uint32_t window_blocks_ = 1;
  std::optional<std::uint64_t> size_;
  std::uint64_t blocks_ = 0;  // received in order
  std::uint32_t unacked_ = 0; // of them, since the last ACK
  bool heard_ = false, gap_told_ = false, done_ = false;
  std::string error_;
  Bytes file_;
};

} // namespace ductl::netboot::test
