// The duck's end of a round: frames in, assembled requests and frames out. Sans-I/O, no clock of its own, one thread.
//
// Per lane there is one current round: Receiving -> Ready -> Computing -> Done (or Refused). A newer round takes a lane over
// whatever it was doing (the host gave the older one up), older rounds' frames are dropped. The reply of the last round
// stays for retransmission until a newer round begins.
// The duck keeps no timers: the host is the only clock of a round. A duck speaks when it sees a gap (RequestNack, once for
// each missing fragment), when it is asked (ReplyNack), and when it has a reply.
//
// Loop:  feed() every frame that has come; frames() -> send -> sent(); next_ready() -> take() -> compute -> complete().
// While computing, keep feeding between slices and drop the work when is_current() turns false.
#pragma once

#include "agent/transport/transport.hpp"
#include "agent/wire/bytes.hpp"
#include "agent/wire/fragments.hpp"
#include "agent/wire/reply.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ductl::wire {

struct DuckSession {
  std::uint64_t tag = 0; // 0 = no session: every frame is foreign
  std::uint32_t epoch = 0;
  std::uint16_t duck = 0;
  bool bf16_hidden = false, compact_reply = false;
  int hidden = 0;      // of the model in use; 0 = none, every request is refused
  int tokens_max = 64; // of one request
  std::size_t mtu = 1472;
};

struct DuckRoundCounts {
  std::uint64_t frames_in = 0, frames_out = 0;
  std::uint64_t corrupt = 0;   // shorter than a header, or a checksum that does not fit
  std::uint64_t foreign = 0;   // another protocol, version, session or duck
  std::uint64_t malformed = 0; // ours, but numbers that contradict each other or what came before
  std::uint64_t stale = 0, duplicate = 0;
  std::uint64_t nacks_sent = 0, nacks_received = 0, busy_sent = 0, refusals = 0;
};

// An assembled request, borrowed until the next feed().
struct ReadyRequest {
  int lane = 0;
  std::uint32_t round = 0;
  int layer = 0, rung = 0;
  std::span<const std::byte> message;
  ReplyBuffer* reply = nullptr; // to fill; may be written to while is_current()
};

class DuckRound {
public:
  static constexpr std::size_t kBurst = 32;

  DuckRound();
  // Forgets every round. Allocates when the session's sizes grow, and nowhere else.
  void begin_session(const DuckSession& session);
  [[nodiscard]] const DuckSession& session() const { return session_; }

  void feed(agent::Endpoint from, std::span<const std::byte> frame, Instant now);

  // The next frames to send, at most kBurst; borrowed until the next call of any non-const function but sent().
  [[nodiscard]] std::span<const agent::OutgoingFrame> frames();
  void sent(std::size_t count); // so many of the last frames() were taken
  [[nodiscard]] bool has_frames() const;

  // The lane whose request has been complete for longest; it is Computing from take() on.
  [[nodiscard]] std::optional<int> next_ready() const;
  [[nodiscard]] ReadyRequest take(int lane);
  [[nodiscard]] bool is_current(int lane, std::uint32_t round) const; // still wanted
  void complete(int lane, std::uint32_t round, Instant now);          // the reply buffer is finished; ignored when not current
  void refuse(int lane, std::uint32_t round, RefusalCode code);

  [[nodiscard]] const DuckRoundCounts& counts() const { return counts_; }

private:
  enum class Stage { Idle, Receiving, Ready, Computing, Done, Refused };
  struct Lane {
    Stage stage = Stage::Idle;
    Header about;            // layer, rung, round, epoch of the current round; code once refused
    agent::Endpoint host;    // who asked last
    Tiling tiling;           // of the request; count 0 = no fragment seen yet
    FragmentSet have;        // request fragments
    std::size_t gap_end = 0; // gaps below this fragment have been reported
    AlignedArray<std::byte> request;
    ReplyBuffer reply;
    Tiling reply_tiling;
    FragmentSet to_send; // reply fragments
    std::uint64_t ready_order = 0;
    Instant replied_at{}; // when the whole reply was last queued
    // What else to send.
    bool nack = false, busy = false;
    std::size_t nack_first = 0, nack_end = 0;
    std::array<std::byte, bitmap_bytes(kFragmentsMax)> nack_bitmap;
    // A refusal may concern a frame of another epoch, which leaves the lane's round alone.
    bool refuse = false;
    Header refused;
    agent::Endpoint refuse_to;
    bool any_refused = false;
  };
  enum class What { Refusal, Busy, Nack, Reply };
  struct Item {
    Lane* lane;
    What what;
    std::size_t fragment;
  };

  void feed_request(Lane& lane, agent::Endpoint from, const Frame& frame, Instant now);
  void feed_nack(Lane& lane, agent::Endpoint from, const Frame& frame, Instant now);
  void begin_round(Lane& lane, agent::Endpoint from, const Header& header);
  bool accept_tiling(Lane& lane, const Header& header);
  void store_fragment(Lane& lane, const Frame& frame);
  void queue_refusal(Lane& lane, agent::Endpoint from, const Header& about, RefusalCode code, bool asked);
  void queue_reply(Lane& lane, Instant now);
  void add_item(Lane& lane, What what, std::size_t fragment, const Header& header, std::span<const std::byte> body);
  [[nodiscard]] Header answer_to(const Header& about, Kind kind) const;
  void add_control_items(Lane& lane);
  void add_reply_items(Lane& lane);

  DuckSession session_;
  std::vector<Lane> lanes_;
  std::uint64_t ready_count_ = 0;
  DuckRoundCounts counts_;
  std::array<agent::OutgoingFrame, kBurst> burst_;
  std::array<HeaderBytes, kBurst> heads_;
  std::array<Item, kBurst> items_;
  std::size_t items_count_ = 0;
};

} // namespace ductl::wire
