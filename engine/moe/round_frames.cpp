// HostRound's side towards the network: what comes in, what goes out, and when a duck is asked.
#include "engine/moe/round.hpp"

#include "agent/wire/block_float.hpp"
#include "engine/moe/reduce.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <fmt/core.h>

namespace ductl::engine {
namespace {

constexpr int kQuestionsMin = 2; // that a duck leaves unanswered before it is called dead

} // namespace

void HostRound::feed(const wire::Frame& frame, Instant now) {
  const wire::Header& h = frame.header;
  assert(h.duck < ducks_.size() && h.lane == options_.lane);
  if (stage_ != Stage::Running || h.round != round_) {
    ++counts_.duplicate;
    return;
  }
  if (h.layer != request_.layer || h.rung != rung_ || (h.epoch != options_.epoch)) {
    ++counts_.malformed;
    return;
  }
  DuckState& duck = ducks_[h.duck];
  if (duck.done) {
    ++counts_.duplicate;
    return;
  }
  switch (h.kind) {
  case wire::Kind::Reply: feed_reply(duck, frame, now); break;
  case wire::Kind::RequestNack: feed_request_nack(duck, frame, now); break;
  case wire::Kind::Busy:
    ++counts_.busy;
    alive(duck, now, false);
    break;
  case wire::Kind::Refusal: feed_refusal(h); break;
  case wire::Kind::Request:
  case wire::Kind::ReplyNack: ++counts_.malformed; break;
  }
}

// Does this fragment fit what was asked, and what has come before?
bool HostRound::accept_reply(DuckState& duck, const wire::Frame& frame) {
  const wire::Header& h = frame.header;
  const int tokens = static_cast<int>(tokens_.size());
  const bool empty = h.message_length == wire::kReplyHeadBytes;
  if (!empty && h.message_length != wire::reply_bytes(tokens, options_.hidden, options_.compact_reply)) return false;
  const wire::Tiling tiling = *wire::tiling_of(h); // decode_frame has seen that it is one
  if (duck.tiling.count != 0 && tiling != duck.tiling) return false;
  if (h.fragment == 0) {
    const auto head = wire::parse_reply_head(frame.payload, h.message_length);
    if (!head || head->tokens != tokens || head->hidden != options_.hidden || head->compact != options_.compact_reply)
      return false;
    compute_ns_ = std::max(compute_ns_, static_cast<std::int64_t>(std::min<std::uint64_t>(head->compute_ns, INT64_MAX)));
  }
  if (duck.tiling.count == 0) {
    duck.tiling = tiling;
    duck.have.clear(tiling.count);
  }
  return true;
}

void HostRound::feed_reply(DuckState& duck, const wire::Frame& frame, Instant now) {
  const bool first = duck.tiling.count == 0;
  if (!accept_reply(duck, frame)) {
    ++counts_.malformed;
    return;
  }
  if (!duck.have.insert(frame.header.fragment)) {
    ++counts_.duplicate;
    return;
  }
  if (first) last_began_ = now;
  add_fragment(duck, frame);
  alive(duck, now, true);
  if (!duck.have.full()) {
    find_gap(duck, frame.header.fragment);
    return;
  }
  if (options_.compact_reply && !add_compact(duck)) return;
  duck.done = true;
  duck.nack = false;
  const bool knew = clock_.peers_tell();
  clock_.arrived(now);
  if (++ducks_done_ == ducks_.size()) {
    end_rung(now);
  } else if (!knew && clock_.peers_tell()) {
    hurry_stragglers();
  }
}

// Fragments start at multiples of 32 bytes, so no guard and no sum is cut in two. A compact reply's numbers mean nothing without
// their shifts, which may come later: it is put together first.
void HostRound::add_fragment(DuckState& duck, const wire::Frame& frame) {
  if (frame.header.message_length == wire::kReplyHeadBytes) return;
  const std::size_t begin = frame.header.offset, end = begin + frame.payload.size();
  if (options_.compact_reply) {
    std::memcpy(duck.compact.data() + begin, frame.payload.data(), frame.payload.size());
    return;
  }
  add_guards(frame.payload, begin);
  const std::size_t sums_begin = wire::reply_sums_offset(static_cast<int>(tokens_.size()));
  const std::size_t from = std::max(begin, sums_begin);
  if (from >= end) return;
  add_wrapping(sum_.span().subspan((from - sums_begin) / 4, (end - from) / 4), frame.payload.subspan(from - begin));
}

// Those that lie in `bytes`, which begin at `offset` of a reply.
void HostRound::add_guards(std::span<const std::byte> bytes, std::size_t offset) {
  const std::size_t guards_end = wire::kReplyHeadBytes + 8 * tokens_.size();
  for (std::size_t at = std::max(offset, wire::kReplyHeadBytes); at < std::min(offset + bytes.size(), guards_end); at += 8) {
    std::uint64_t& guard = guard_[(at - wire::kReplyHeadBytes) / 8];
    guard = wire::add_guards(guard, wire::load<std::uint64_t>(bytes, at - offset));
  }
}

// A whole compact reply. False: no duck of ours can have written it, and the round has failed.
bool HostRound::add_compact(const DuckState& duck) {
  const int tokens = static_cast<int>(tokens_.size());
  if (duck.tiling.message_bytes == wire::kReplyHeadBytes) return true;
  const auto reply = duck.compact.span().first(duck.tiling.message_bytes);
  const auto row = static_cast<std::size_t>(options_.hidden), blocks = wire::float_blocks(row);
  const auto shifts = reply.subspan(wire::reply_sums_offset(tokens), blocks * tokens_.size());
  const auto too_far = [](std::byte shift) { return std::to_integer<int>(shift) > wire::kShiftMax; };
  if (std::any_of(shifts.begin(), shifts.end(), too_far)) {
    const auto number = static_cast<std::size_t>(&duck - ducks_.data());
    fail_round({.code = ErrorCode::kAgentRefused,
                .message = fmt::format("the reply of duck {} in layer {} holds a shift beyond {}", options_.ducks[number].name,
                                       request_.layer, wire::kShiftMax),
                .place = options_.ducks[number].name,
                .next = "compare `duck-agent --version` with `duck-engine --version`: both must be of one build"});
    return false;
  }
  add_guards(reply, 0);
  auto numbers = std::span<const std::byte>(reply).subspan(wire::reply_numbers_offset(tokens, options_.hidden));
  for (std::size_t t = 0; t < tokens_.size(); ++t) {
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto block = sums(t).subspan(b * wire::kFloatBlock, std::min(wire::kFloatBlock, row - b * wire::kFloatBlock));
      wire::add_block_float(block, numbers.first(2 * block.size()), std::to_integer<int>(shifts[t * blocks + b]));
      numbers = numbers.subspan(2 * block.size());
    }
  }
  return true;
}

// A duck sends its fragments in order over one path: whatever is missing below this one is lost. Each is asked for once from
// here; when that too is lost, the timer asks again.
void HostRound::find_gap(DuckState& duck, std::size_t fragment) {
  if (fragment < duck.gap_end) return;
  const std::size_t first = duck.gap_end;
  duck.gap_end = fragment + 1;
  bool gap = false;
  for (std::size_t i = first; i < fragment && !gap; ++i) gap = !duck.have.contains(i);
  if (!gap) return;
  duck.nack_first = duck.nack ? std::min(duck.nack_first, first) : first;
  duck.nack_end = fragment;
  duck.nack = true;
  clean_ = false;
}

void HostRound::feed_request_nack(DuckState& duck, const wire::Frame& frame, Instant now) {
  const wire::Header& h = frame.header;
  if (h.count != 0 && h.count != tiling_.count) {
    ++counts_.malformed;
    return;
  }
  ++counts_.nacks_received;
  clean_ = false;
  PortState& port = ports_[duck.port];
  std::size_t missing = 0;
  for (std::size_t f = 0; f < tiling_.count; ++f) {
    if (h.count != 0 && (frame.payload[f / 8] >> (f % 8) & std::byte{1}) == std::byte{0}) continue;
    port.pending.insert(f * port.ducks.size() + duck.position);
    ++missing;
  }
  duck.heard = true;
  // Only getting nearer is life: over a path that eats every large frame a duck could ask for ever.
  if (missing >= duck.request_missing) return;
  duck.request_missing = missing;
  alive(duck, now, true);
}

void HostRound::feed_refusal(const wire::Header& h) {
  const std::string& name = options_.ducks[h.duck].name;
  const auto refused = [&](ErrorCode code, std::string why, std::string next) {
    fail_round({.code = code,
                .message = fmt::format("duck {} refuses layer {}: {}", name, request_.layer, why),
                .place = name,
                .next = std::move(next)});
  };
  switch (static_cast<wire::RefusalCode>(h.code)) {
  case wire::RefusalCode::StaleEpoch:
    return refused(ErrorCode::kFlockEpoch, fmt::format("its slices are not those of epoch {}", options_.epoch),
                   "run `ductl up`: it activates the slices that this engine expects");
  case wire::RefusalCode::UnknownLayer:
    return refused(ErrorCode::kFlockEpoch, "it has no such layer", "run `ductl up`: it sends the slices of this model");
  case wire::RefusalCode::WrongHidden:
    return refused(ErrorCode::kFlockEpoch, "its model or session has another hidden size or type",
                   "run `ductl up`: it starts the session afresh");
  case wire::RefusalCode::Malformed:
  case wire::RefusalCode::TooLarge: break;
  }
  refused(ErrorCode::kAgentRefused, fmt::format("it cannot read the request (code {})", h.code),
          "compare `duck-agent --version` with `duck-engine --version`: both must be of one build");
}

// `progress`: it got nearer to the round's end; else it only said that it is at work, and need not be asked as often again.
void HostRound::alive(DuckState& duck, Instant now, bool progress) {
  duck.life = now;
  duck.unanswered = 0;
  duck.heard = true;
  if (progress) duck.backoff = clock_.patience();
  duck.ask_at = now + duck.backoff;
}

// Half of the flock has answered: now it is known how long an answer takes, whatever was guessed before.
void HostRound::hurry_stragglers() {
  for (DuckState& duck : ducks_) {
    if (duck.done || duck.unanswered > 0) continue;
    duck.backoff = clock_.patience();
    duck.ask_at = duck.life + duck.backoff;
  }
}

Instant HostRound::deadline() const {
  Instant first = Instant::max();
  if (stage_ != Stage::Running) return first;
  for (const DuckState& duck : ducks_) {
    if (duck.done) continue;
    first = std::min(first, duck.ask_at);
    if (duck.unanswered >= kQuestionsMin) first = std::min(first, duck.life + options_.dead_after);
  }
  return first;
}

void HostRound::tick(Instant now) {
  if (stage_ != Stage::Running) return;
  for (std::size_t d = 0; d < ducks_.size(); ++d) {
    DuckState& duck = ducks_[d];
    if (duck.done) continue;
    if (now - duck.life >= options_.dead_after && duck.unanswered >= kQuestionsMin) {
      fail_round(death(d));
      return;
    }
    if (now >= duck.ask_at) ask(duck, now);
  }
}

// One question: "what of your reply is missing here". A duck that has it all sends that, one at work says Busy, one that lacks
// the request says so. Few questions per time: 32 ducks that are late because they share two cores are not helped by more.
void HostRound::ask(DuckState& duck, Instant now) {
  const int budget = std::max(2, static_cast<int>(ducks_.size()) / 8);
  if (now - window_ >= clock_.floor()) {
    window_ = now;
    window_asked_ = 0;
  }
  if (window_asked_ >= budget) {
    duck.ask_at = window_ + clock_.floor();
    return;
  }
  ++window_asked_;
  ++counts_.soft_timeouts;
  clean_ = false;
  duck.nack = true;
  duck.nack_first = 0;
  duck.nack_end = duck.gap_end = duck.tiling.count;
  ++duck.unanswered;
  duck.backoff = std::min(2 * duck.backoff, clock_.backoff_max()); // also when the first patience was longer
  duck.ask_at = now + duck.backoff;
}

Error HostRound::death(std::size_t d) const {
  const std::string &name = options_.ducks[d].name, &log = options_.ducks[d].log;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options_.dead_after).count();
  if (ducks_[d].heard && ducks_[d].request_missing <= tiling_.count && ducks_[d].tiling.count == 0) {
    return {.code = ErrorCode::kDuckDied,
            .message =
                fmt::format("duck {} asks for the request of layer {} but does not get it ({} of {} frames missing for {} ms)",
                            name, request_.layer, ducks_[d].request_missing, tiling_.count, ms),
            .place = name,
            .next = "small frames pass and large ones do not: compare the MTU of both ends and of the switch"};
  }
  return {.code = ErrorCode::kDuckDied,
          .message = fmt::format("duck {} went silent in layer {} for {} ms", name, request_.layer, ms),
          .place = log.empty() ? name : log,
          .next = "`ductl status` tells what is left of it; `ductl up` brings it back"};
}

bool HostRound::has_frames() const {
  return std::any_of(ports_.begin(), ports_.end(), [](const PortState& p) { return p.pending.present() > 0; }) ||
         std::any_of(ducks_.begin(), ducks_.end(), [](const DuckState& d) { return d.nack; });
}

std::span<const agent::OutgoingFrame> HostRound::frames(int port_index) {
  if (static_cast<std::size_t>(port_index) >= ports_.size()) return {}; // a port without ducks
  PortState& port = ports_[port_index];
  port.items_count = 0;
  for (const int d : port.ducks) {
    DuckState& duck = ducks_[d];
    if (!duck.nack || port.items_count == kBurst) continue;
    wire::Header h = header(wire::Kind::ReplyNack);
    h.duck = static_cast<std::uint16_t>(d);
    h.count = duck.tiling.count;
    const auto bitmap = std::span(duck.nack_bitmap).first(wire::bitmap_bytes(h.count));
    if (h.count != 0) duck.have.write_missing(duck.nack_first, duck.nack_end, bitmap);
    h.length = h.message_length = static_cast<std::uint32_t>(bitmap.size());
    wire::HeaderBytes& head = port.nack_heads[port.items_count];
    wire::encode_header(h, bitmap, head);
    port.burst[port.items_count] = {.to = options_.ducks[d].data, .head = head, .body = bitmap};
    port.items[port.items_count++] = kNackItem + static_cast<std::size_t>(d);
  }
  const auto message = message_.span().first(tiling_.message_bytes);
  for (std::size_t i = port.pending.next(0); i < port.pending.size() && port.items_count < kBurst; i = port.pending.next(i + 1)) {
    const std::size_t f = i / port.ducks.size();
    const int d = port.ducks[i % port.ducks.size()];
    port.burst[port.items_count] = {
        .to = options_.ducks[d].data, .head = heads_[f], .body = tiling_.cut(message, static_cast<int>(f))};
    port.items[port.items_count++] = i;
  }
  return std::span(port.burst).first(port.items_count);
}

void HostRound::sent(int port_index, std::size_t count, Instant now) {
  if (count == 0) return;
  PortState& port = ports_[port_index];
  assert(count <= port.items_count);
  for (const std::size_t item : std::span(port.items).first(count)) {
    if (item >= kNackItem) {
      ducks_[item - kNackItem].nack = false;
      ++counts_.nacks_sent;
    } else {
      port.pending.erase(item);
    }
  }
  counts_.frames_out += count;
  port.items_count = 0;
  const auto drained = [](const PortState& p) { return p.pending.present() == 0; };
  if (!all_sent_ && std::all_of(ports_.begin(), ports_.end(), drained)) {
    all_sent_ = true;
    sent_at_ = now;
  }
}

} // namespace ductl::engine
