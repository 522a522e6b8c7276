#include "agent/wire/duck_round.hpp"

#include "agent/wire/request.hpp"

#include <algorithm>
#include <cstring>

namespace ductl::wire {
namespace {

// A finished round's request seen once more asks for its reply again, but not more often than this: a doubled burst of
// request fragments must not become as many replies.
constexpr Duration kRepeatInterval = std::chrono::milliseconds(2);

} // namespace

DuckRound::DuckRound() : lanes_(kLanesMax) {}

void DuckRound::begin_session(const DuckSession& session) {
  assert(session.mtu >= kHeaderBytes + kPayloadAlignment && session.tokens_max >= 1 && session.tokens_max <= kTokensMax);
  session_ = session;
  items_count_ = 0;
  for (Lane& lane : lanes_) {
    lane.stage = Stage::Idle;
    lane.nack = lane.busy = lane.refuse = lane.any_refused = false;
    lane.tiling = {};
    if (lane.have.capacity() == 0) {
      lane.have = FragmentSet(kFragmentsMax);
      lane.to_send = FragmentSet(kFragmentsMax);
    }
    lane.to_send.clear(0);
    if (session.hidden == 0) continue;
    const std::size_t request_max = request_bytes_max(session.tokens_max, session.hidden, session.bf16_hidden);
    if (lane.request.size() < request_max) lane.request = AlignedArray<std::byte>(request_max);
    if (lane.reply.hidden() != session.hidden || lane.reply.tokens_max() != session.tokens_max ||
        lane.reply.compact() != session.compact_reply) {
      lane.reply = ReplyBuffer(session.tokens_max, session.hidden, session.compact_reply);
    }
  }
}

void DuckRound::feed(agent::Endpoint from, std::span<const std::byte> bytes, Instant now) {
  ++counts_.frames_in;
  const auto frame = decode_frame(bytes);
  if (!frame) {
    const bool damaged = frame.error() == Fault::Short || frame.error() == Fault::Corrupt;
    ++(damaged ? counts_.corrupt : frame.error() == Fault::Malformed ? counts_.malformed : counts_.foreign);
    return;
  }
  const Header& h = frame->header;
  const bool to_ducks = h.kind == Kind::Request || h.kind == Kind::ReplyNack;
  if (session_.tag == 0 || h.session_tag != session_.tag || !to_ducks || (h.duck != kAllDucks && h.duck != session_.duck)) {
    ++counts_.foreign;
    return;
  }
  Lane& lane = lanes_[h.lane];
  const bool asked = h.kind == Kind::ReplyNack;
  if (asked) ++counts_.nacks_received;
  if (h.epoch != session_.epoch || session_.hidden == 0) {
    queue_refusal(lane, from, h, RefusalCode::StaleEpoch, asked);
    return;
  }
  if (lane.stage != Stage::Idle && round_before(h.round, lane.about.round)) {
    ++counts_.stale;
    return;
  }
  if (lane.stage == Stage::Idle || h.round != lane.about.round) begin_round(lane, from, h);
  if (h.layer != lane.about.layer || h.rung != lane.about.rung) {
    ++counts_.malformed;
    return;
  }
  lane.host = from;
  asked ? feed_nack(lane, from, *frame, now) : feed_request(lane, from, *frame, now);
}

void DuckRound::begin_round(Lane& lane, agent::Endpoint from, const Header& header) {
  lane.stage = Stage::Receiving;
  lane.about = header;
  lane.host = from;
  lane.tiling = {};
  lane.have.clear(0);
  lane.gap_end = 0;
  lane.to_send.clear(0);
  lane.nack = lane.busy = false;
}

bool DuckRound::accept_tiling(Lane& lane, const Header& header) {
  const Tiling tiling = *tiling_of(header); // decode_frame has seen that it is one
  if (lane.tiling.count != 0) return tiling == lane.tiling;
  lane.tiling = tiling;
  lane.have.clear(tiling.count);
  return true;
}

void DuckRound::feed_request(Lane& lane, agent::Endpoint from, const Frame& frame, Instant now) {
  const Header& h = frame.header;
  switch (lane.stage) {
  case Stage::Idle: assert(false); break;
  case Stage::Ready:
  case Stage::Computing: ++counts_.duplicate; return;
  case Stage::Refused: ++counts_.duplicate; return;
  case Stage::Done:
    ++counts_.duplicate;
    if (h.fragment + 1 == h.count && now - lane.replied_at >= kRepeatInterval) queue_reply(lane, now);
    return;
  case Stage::Receiving: break;
  }
  if (h.message_length > lane.request.size()) {
    lane.stage = Stage::Refused;
    lane.about.code = static_cast<std::uint16_t>(RefusalCode::TooLarge);
    queue_refusal(lane, from, lane.about, RefusalCode::TooLarge, true);
    return;
  }
  if (!accept_tiling(lane, h)) {
    ++counts_.malformed;
    return;
  }
  store_fragment(lane, frame);
}

void DuckRound::store_fragment(Lane& lane, const Frame& frame) {
  const Header& h = frame.header;
  if (!lane.have.insert(h.fragment)) {
    ++counts_.duplicate;
    return;
  }
  std::memcpy(lane.request.data() + h.offset, frame.payload.data(), frame.payload.size());
  if (lane.have.full()) {
    lane.stage = Stage::Ready;
    lane.ready_order = ++ready_count_;
    lane.nack = false;
    return;
  }
  // One path, fragments in order: whatever is missing below this one is lost. Each is reported once from here.
  if (h.fragment >= lane.gap_end) {
    const std::size_t first = lane.gap_end;
    lane.gap_end = h.fragment + 1u;
    bool gap = false;
    for (std::size_t i = first; i < h.fragment && !gap; ++i) gap = !lane.have.contains(i);
    if (gap) {
      lane.nack_first = lane.nack ? std::min(lane.nack_first, first) : first;
      lane.nack_end = h.fragment;
      lane.nack = true;
    }
  }
}

void DuckRound::feed_nack(Lane& lane, agent::Endpoint from, const Frame& frame, Instant now) {
  switch (lane.stage) {
  case Stage::Idle: assert(false); break;
  case Stage::Receiving: // the request, or the rest of it, never came
    lane.nack = true;
    lane.nack_first = 0;
    lane.nack_end = lane.tiling.count;
    lane.gap_end = lane.tiling.count;
    break;
  case Stage::Ready:
  case Stage::Computing: lane.busy = true; break;
  case Stage::Refused: queue_refusal(lane, from, lane.about, static_cast<RefusalCode>(lane.about.code), true); break;
  case Stage::Done:
    if (frame.header.count == lane.reply_tiling.count) {
      lane.to_send.insert_bitmap(frame.payload);
    } else {
      queue_reply(lane, now);
    }
    break;
  }
}

void DuckRound::queue_refusal(Lane& lane, agent::Endpoint from, const Header& about, RefusalCode code, bool asked) {
  // A request of many fragments is refused once; after that only when the host asks.
  const bool known = lane.any_refused && lane.refused.round == about.round && lane.refused.epoch == about.epoch;
  if (known && !asked) return;
  lane.refused = about;
  lane.refused.code = static_cast<std::uint16_t>(code);
  lane.any_refused = lane.refuse = true;
  lane.refuse_to = from;
}

void DuckRound::queue_reply(Lane& lane, Instant now) {
  lane.to_send.fill(lane.reply_tiling.count);
  lane.replied_at = now;
}

std::optional<int> DuckRound::next_ready() const {
  std::optional<int> best;
  for (int i = 0; i < kLanesMax; ++i) {
    if (lanes_[i].stage == Stage::Ready && (!best || lanes_[i].ready_order < lanes_[*best].ready_order)) best = i;
  }
  return best;
}

ReadyRequest DuckRound::take(int lane_index) {
  Lane& lane = lanes_[lane_index];
  assert(lane.stage == Stage::Ready);
  lane.stage = Stage::Computing;
  return {.lane = lane_index,
          .round = lane.about.round,
          .layer = lane.about.layer,
          .rung = lane.about.rung,
          .message = lane.request.span().first(lane.tiling.message_bytes),
          .reply = &lane.reply};
}

bool DuckRound::is_current(int lane, std::uint32_t round) const {
  return lanes_[lane].stage == Stage::Computing && lanes_[lane].about.round == round;
}

void DuckRound::complete(int lane_index, std::uint32_t round, Instant now) {
  if (!is_current(lane_index, round)) return;
  Lane& lane = lanes_[lane_index];
  lane.stage = Stage::Done;
  lane.busy = false;
  lane.reply_tiling = make_tiling(lane.reply.message().size(), session_.mtu);
  queue_reply(lane, now);
}

void DuckRound::refuse(int lane_index, std::uint32_t round, RefusalCode code) {
  if (!is_current(lane_index, round)) return;
  Lane& lane = lanes_[lane_index];
  lane.stage = Stage::Refused;
  lane.busy = false;
  lane.about.code = static_cast<std::uint16_t>(code);
  queue_refusal(lane, lane.host, lane.about, code, true);
}

bool DuckRound::has_frames() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& l) { return l.refuse || l.busy || l.nack || l.to_send.present() > 0; });
}

Header DuckRound::answer_to(const Header& about, Kind kind) const {
  Header h = about;
  h.kind = kind;
  h.duck = session_.duck;
  h.fragment = h.count = h.code = 0;
  h.offset = h.length = h.message_length = 0;
  return h;
}

void DuckRound::add_item(Lane& lane, What what, std::size_t fragment, const Header& header, std::span<const std::byte> body) {
  HeaderBytes& head = heads_[items_count_];
  encode_header(header, body, head);
  burst_[items_count_] = {.to = what == What::Refusal ? lane.refuse_to : lane.host, .head = head, .body = body};
  items_[items_count_] = {&lane, what, fragment};
  ++items_count_;
}

void DuckRound::add_control_items(Lane& lane) {
  if (lane.refuse && items_count_ < kBurst) {
    Header h = answer_to(lane.refused, Kind::Refusal);
    h.code = lane.refused.code;
    add_item(lane, What::Refusal, 0, h, {});
  }
  if (lane.busy && items_count_ < kBurst) add_item(lane, What::Busy, 0, answer_to(lane.about, Kind::Busy), {});
  if (lane.nack && items_count_ < kBurst) {
    Header h = answer_to(lane.about, Kind::RequestNack);
    h.count = lane.tiling.count;
    const auto bitmap = std::span(lane.nack_bitmap).first(bitmap_bytes(h.count));
    lane.have.write_missing(lane.nack_first, lane.nack_end, bitmap);
    h.length = h.message_length = static_cast<std::uint32_t>(bitmap.size());
    add_item(lane, What::Nack, 0, h, bitmap);
  }
}

void DuckRound::add_reply_items(Lane& lane) {
  const auto message = lane.stage == Stage::Done ? lane.reply.message() : std::span<const std::byte>{};
  for (std::size_t f = lane.to_send.next(0); f < lane.to_send.size() && items_count_ < kBurst; f = lane.to_send.next(f + 1)) {
    const auto body = lane.reply_tiling.cut(message, static_cast<int>(f));
    Header h = answer_to(lane.about, Kind::Reply);
    h.fragment = static_cast<std::uint16_t>(f);
    h.count = lane.reply_tiling.count;
    h.offset = static_cast<std::uint32_t>(lane.reply_tiling.offset(static_cast<int>(f)));
    h.length = static_cast<std::uint32_t>(body.size());
    h.message_length = lane.reply_tiling.message_bytes;
    add_item(lane, What::Reply, f, h, body);
  }
}

std::span<const agent::OutgoingFrame> DuckRound::frames() {
  items_count_ = 0;
  for (Lane& lane : lanes_) add_control_items(lane);
  for (Lane& lane : lanes_) add_reply_items(lane);
  return std::span(burst_).first(items_count_);
}

void DuckRound::sent(std::size_t count) {
  assert(count <= items_count_);
  for (const Item& item : std::span(items_).first(count)) {
    switch (item.what) {
    case What::Refusal: item.lane->refuse = false, ++counts_.refusals; break;
    case What::Busy: item.lane->busy = false, ++counts_.busy_sent; break;
    case What::Nack: item.lane->nack = false, ++counts_.nacks_sent; break;
    case What::Reply: item.lane->to_send.erase(item.fragment); break;
    }
  }
  counts_.frames_out += count;
  items_count_ = 0;
}

} // namespace ductl::wire
