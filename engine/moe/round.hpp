// The host's end of a round, for one lane: a request out to every duck, integer sums back, floats at the end. Sans-I/O.
//
// start() -> { frames() -> send -> sent(); feed(); tick() at deadline() } until finished() -> finish(). Single-threaded;
// allocates in its constructor only. Sums are integers, added as fragments arrive, each exactly once (those of a compact reply
// once it is whole): their bits do not depend on the order of arrival, nor, where replies are exact, on the number of ducks. A
// token whose guard total reaches 2^31 is asked for again at 2^-8 of the scale, then 2^-16; beyond that the round fails with
// kSumOverflow. A duck without progress for `dead_after` fails it with kDuckDied; one that refuses, with the matching code. After
// a failure the round is over and the next start() is as good as the first: its number tells late frames apart.
#pragma once

#include "agent/wire/bytes.hpp"
#include "agent/wire/fragments.hpp"
#include "agent/wire/reply.hpp"
#include "engine/moe/flock_ffn.hpp"
#include "engine/moe/peer_clock.hpp"

#include <array>
#include <optional>
#include <vector>

namespace ductl::engine {

struct HostRoundOptions {
  std::vector<FlockDuck> ducks; // index = number on the wire
  int lane = 0;
  std::uint64_t session_tag = 0;
  std::uint32_t epoch = 0;
  std::uint32_t first_round = 1;
  int hidden = 0, tokens_max = 1;
  bool bf16_hidden = false, compact_reply = false;
  std::size_t mtu = 1472; // the smallest of the ports'
  Duration dead_after = std::chrono::seconds(5);
};

struct HostRoundCounts {
  std::uint64_t rounds = 0, repeats = 0, nacks_sent = 0, nacks_received = 0, soft_timeouts = 0, frames_out = 0, busy = 0;
  std::uint64_t duplicate = 0; // and frames of rounds that are over
  std::uint64_t malformed = 0;
};

class HostRound {
public:
  static constexpr std::size_t kBurst = 32;

  explicit HostRound(HostRoundOptions options);
  HostRound(HostRound&&) = delete; // frames() hands out pointers into it

  // The request's spans and `exponent` (of its layer) must stay valid until finish().
  void start(const FfnRequest& request, std::span<const std::int16_t> exponent, Instant now);
  // A frame of this session and lane, from duck frame.header.duck (below ducks.size()).
  void feed(const wire::Frame& frame, Instant now);
  void tick(Instant now);                 // after everything that has come was fed
  [[nodiscard]] Instant deadline() const; // of the next tick

  // The next frames for one port, at most kBurst; borrowed until the next call of any non-const function but sent().
  [[nodiscard]] std::span<const agent::OutgoingFrame> frames(int port);
  void sent(int port, std::size_t count, Instant now); // so many of that port's last frames() were taken
  [[nodiscard]] bool has_frames() const;

  [[nodiscard]] bool in_flight() const { return stage_ != Stage::Idle; }
  [[nodiscard]] bool finished() const { return stage_ == Stage::Finished; }
  // Only when finished(): writes y[tokens * hidden], or says what went wrong. The lane is idle again.
  [[nodiscard]] Expected<RoundTimes> finish(std::span<float> y, Instant now);
  [[nodiscard]] const HostRoundCounts& counts() const { return counts_; }

private:
  enum class Stage { Idle, Running, Finished };
  struct DuckState {
    int port = 0;
    std::size_t position = 0; // among the ducks of its port
    bool done = false, heard = false;
    wire::Tiling tiling; // of its reply; count 0 = no fragment yet
    wire::FragmentSet have;
    wire::AlignedArray<std::byte> compact; // its reply so far, where replies are compact
    std::size_t gap_end = 0;               // gaps below this fragment have been asked for
    std::size_t request_missing = 0;       // fewest request fragments that it said it missed, + 1 at the start
    Instant life{};                        // last progress, or the round's start
    Instant ask_at{};
    Duration backoff{};
    int unanswered = 0; // questions since `life`
    bool nack = false;  // to send: what is missing of nack_first .. nack_end-1
    std::size_t nack_first = 0, nack_end = 0;
    std::array<std::byte, wire::bitmap_bytes(wire::kFragmentsMax)> nack_bitmap;
  };
  struct PortState {
    std::vector<int> ducks;
    wire::FragmentSet pending; // fragment * ducks.size() + position
    std::array<agent::OutgoingFrame, kBurst> burst;
    std::array<wire::HeaderBytes, kBurst> nack_heads;
    std::array<std::size_t, kBurst> items; // an index into pending, or kNackItem + duck
    std::size_t items_count = 0;
  };
  static constexpr std::size_t kNackItem = std::size_t{1} << 40;

  void begin_rung(int rung, Instant now);
  void encode_request();
  void end_rung(Instant now);
  void add_times(Instant now);
  void fail_round(Error error);
  void feed_reply(DuckState& duck, const wire::Frame& frame, Instant now);
  bool accept_reply(DuckState& duck, const wire::Frame& frame);
  void add_fragment(DuckState& duck, const wire::Frame& frame);
  void add_guards(std::span<const std::byte> bytes, std::size_t offset);
  [[nodiscard]] bool add_compact(const DuckState& duck);
  void find_gap(DuckState& duck, std::size_t fragment);
  void feed_request_nack(DuckState& duck, const wire::Frame& frame, Instant now);
  void feed_refusal(const wire::Header& header);
  void alive(DuckState& duck, Instant now, bool progress);
  void hurry_stragglers();
  void ask(DuckState& duck, Instant now);
  [[nodiscard]] Error death(std::size_t duck) const;
  [[nodiscard]] wire::Header header(wire::Kind kind) const;
  [[nodiscard]] std::span<std::int32_t> sums(std::size_t position);

  HostRoundOptions options_;
  Stage stage_ = Stage::Idle;
  FfnRequest request_;
  std::span<const std::int16_t> exponent_;
  int rung_ = 0;
  std::uint32_t round_;
  std::vector<int> tokens_; // of the request, those that this rung asks for
  wire::AlignedArray<std::byte> message_;
  wire::Tiling tiling_;
  std::vector<wire::HeaderBytes> heads_; // [fragment]; the same for every duck
  std::vector<PortState> ports_;
  std::vector<DuckState> ducks_;
  std::size_t ducks_done_ = 0;
  wire::AlignedArray<std::int32_t> sum_; // [tokens_max * hidden], by position in tokens_
  std::vector<std::uint64_t> guard_;     // likewise
  wire::AlignedArray<float> result_;     // [tokens_max * hidden], by token
  std::optional<Error> error_;
  // Asking.
  PeerClock clock_;
  Instant window_{};
  int window_asked_ = 0;
  bool clean_ = true;
  // Times.
  RoundTimes times_;
  Instant rung_start_{}, sent_at_{}, last_began_{};
  bool all_sent_ = false;
  std::int64_t compute_ns_ = 0;
  Instant reduce_from_{}; // the last frame's arrival
  HostRoundCounts counts_;
};

} // namespace ductl::engine
