// One file on its way to one client: packets and the time in, packets and the next deadline out. No socket, no clock.
//
// A window of blocks is in flight (RFC 7440; one block where the client did not ask for more). An ACK inside of it
// moves it on. What then stays open may be lost: it is sent anew, but not before two round trips have passed, so that packets
// which were only doubled or late do not multiply (RFC 1123 section 4.2.3.1 tells of the same in lockstep).
// Block numbers on the wire are 16 bits and wrap to 0; here they are 64 bits.
#pragma once

#include "inventory/clock.hpp"
#include "netboot/tftp/packet.hpp"

#include <chrono>

namespace ductl::netboot::tftp {

inline constexpr std::uint32_t kWindowBlocksGranted = 32; // at most; 47 kB in flight
inline constexpr int kSendsMax = 7;                       // of the same window without progress: 15 s at the default timeout
inline constexpr std::chrono::milliseconds kTimeoutFirst{400}, kTimeoutMax{4000}; // doubling; a client may ask for another
inline constexpr std::chrono::milliseconds kHurryMin{2}, kHurryMax{200};          // two round trips, within these bounds

enum class TransferState {
  Running,
  Sent,    // the client acknowledged the last block
  Probed,  // it asked for the size only, and hung up with an ERROR: normal
  Aborted, // it hung up in the middle
  Silent,  // it answers no more
};

class Transfer {
public:
  // `file` must outlive this. `block_bytes_max` is what fits into a datagram of the interface.
  Transfer(ByteView file, const Asked& asked, std::size_t block_bytes_max);

  void begin(Instant now, std::vector<Bytes>& out);
  void feed(ByteView packet, Instant now, std::vector<Bytes>& out);
  void tick(Instant now, std::vector<Bytes>& out);

  [[nodiscard]] TransferState state() const { return state_; }
  [[nodiscard]] Instant deadline() const { return deadline_; } // while Running
  [[nodiscard]] const std::string& client_error() const { return client_error_; }
  [[nodiscard]] std::uint64_t bytes_acknowledged() const;

private:
  void on_ack(std::uint16_t block, Instant now, std::vector<Bytes>& out);
  void on_error(const Answer& answer);
  void send_window(std::uint64_t skipped, Instant now, std::vector<Bytes>& out);
  void send_options(Instant now, std::vector<Bytes>& out);
  void hurry(Instant now);
  void sent(Instant now);
  void arm(Instant now);
  [[nodiscard]] Bytes block(std::uint64_t number) const;

  const ByteView file_;
  const Asked asked_;
  std::size_t block_bytes_ = kBlockBytesDefault;
  std::uint32_t window_blocks_ = 1;
  std::chrono::milliseconds timeout_ = kTimeoutFirst;
  std::uint64_t blocks_ = 0;       // of the file; the last one is shorter than a block, empty if need be
  std::uint64_t acknowledged_ = 0; // blocks 1 to this have arrived
  std::uint64_t in_flight_ = 0;    // blocks behind them that were sent
  bool options_open_ = false;      // OACK sent, ACK 0 not seen
  bool hurried_ = false;           // since the last progress: once
  int sends_ = 0;                  // of this window
  Instant sent_at_{}, deadline_{};
  Duration round_trip_{}; // smoothed, of windows that were sent once
  TransferState state_ = TransferState::Running;
  std::string client_error_;
};

} // namespace ductl::netboot::tftp
