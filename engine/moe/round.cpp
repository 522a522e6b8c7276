#include "engine/moe/round.hpp"

#include "agent/wire/request.hpp"
#include "engine/moe/reduce.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <fmt/core.h>

namespace ductl::engine {
namespace {

std::int64_t to_ns(Duration d) { return std::max<std::int64_t>(d.count(), 0); }

} // namespace

HostRound::HostRound(HostRoundOptions options)
    : options_(std::move(options)), round_(options_.first_round - 1), clock_(options_.dead_after) {
  assert(!options_.ducks.empty() && options_.tokens_max >= 1 && options_.tokens_max <= wire::kTokensMax);
  const std::size_t request_max = wire::request_bytes_max(options_.tokens_max, options_.hidden, options_.bf16_hidden);
  const std::size_t fragments_max = wire::make_tiling(request_max, options_.mtu).count;
  const std::size_t floats = static_cast<std::size_t>(options_.tokens_max) * static_cast<std::size_t>(options_.hidden);
  message_ = wire::AlignedArray<std::byte>(request_max);
  heads_.resize(fragments_max);
  sum_ = wire::AlignedArray<std::int32_t>(floats);
  result_ = wire::AlignedArray<float>(floats);
  guard_.resize(static_cast<std::size_t>(options_.tokens_max));
  tokens_.reserve(static_cast<std::size_t>(options_.tokens_max));
  int ports = 0;
  for (const FlockDuck& duck : options_.ducks) ports = std::max(ports, duck.port_index + 1);
  ports_ = std::vector<PortState>(static_cast<std::size_t>(ports));
  ducks_ = std::vector<DuckState>(options_.ducks.size());
  for (std::size_t d = 0; d < ducks_.size(); ++d) {
    const int port = options_.ducks[d].port_index;
    ducks_[d].port = port;
    ducks_[d].position = ports_[port].ducks.size();
    ducks_[d].have = wire::FragmentSet(wire::kFragmentsMax);
    if (options_.compact_reply)
      ducks_[d].compact = wire::AlignedArray<std::byte>(wire::reply_bytes(options_.tokens_max, options_.hidden, true));
    ports_[port].ducks.push_back(static_cast<int>(d));
  }
  for (PortState& port : ports_) port.pending = wire::FragmentSet(fragments_max * port.ducks.size());
}

void HostRound::start(const FfnRequest& request, std::span<const std::int16_t> exponent, Instant now) {
  assert(stage_ == Stage::Idle && request.tokens >= 1 && request.tokens <= options_.tokens_max);
  assert(request.x.size() == static_cast<std::size_t>(request.tokens * options_.hidden));
  assert(request.experts.size() == static_cast<std::size_t>(request.tokens));
  request_ = request;
  exponent_ = exponent;
  times_ = {};
  error_.reset();
  ++counts_.rounds;
  tokens_.clear();
  for (int t = 0; t < request.tokens; ++t) tokens_.push_back(t);
  begin_rung(0, now);
}

void HostRound::begin_rung(int rung, Instant now) {
  stage_ = Stage::Running;
  rung_ = rung;
  ++round_;
  encode_request();
  std::fill_n(guard_.begin(), tokens_.size(), 0u);
  std::memset(sum_.data(), 0, tokens_.size() * static_cast<std::size_t>(options_.hidden) * sizeof(std::int32_t));
  clock_.begin(static_cast<int>(tokens_.size()), static_cast<int>(ducks_.size()), now);
  for (PortState& port : ports_) {
    port.pending.fill(tiling_.count * port.ducks.size());
    port.items_count = 0;
  }
  for (DuckState& duck : ducks_) {
    duck.done = duck.heard = duck.nack = false;
    duck.tiling = {};
    duck.gap_end = 0;
    duck.request_missing = tiling_.count + 1u;
    duck.life = now;
    duck.backoff = clock_.patience();
    duck.ask_at = now + duck.backoff;
    duck.unanswered = 0;
  }
  ducks_done_ = 0;
  window_asked_ = 0;
  clean_ = true;
  rung_start_ = sent_at_ = last_began_ = now;
  all_sent_ = false;
  compute_ns_ = 0;
}

wire::Header HostRound::header(wire::Kind kind) const {
  wire::Header h;
  h.kind = kind;
  h.lane = static_cast<std::uint8_t>(options_.lane);
  h.rung = static_cast<std::uint8_t>(rung_);
  h.session_tag = options_.session_tag;
  h.epoch = options_.epoch;
  h.round = round_;
  h.layer = static_cast<std::uint16_t>(request_.layer);
  h.duck = wire::kAllDucks;
  return h;
}

void HostRound::encode_request() {
  wire::RequestShape shape{
      .tokens = static_cast<int>(tokens_.size()), .hidden = options_.hidden, .choices = 0, .bf16 = options_.bf16_hidden};
  for (const int t : tokens_) shape.choices += static_cast<int>(request_.experts[t].size());
  const auto message = message_.span().first(wire::request_bytes(shape));
  wire::RequestWriter writer(message, shape);
  for (const int t : tokens_) {
    const auto row = static_cast<std::size_t>(options_.hidden);
    writer.token(request_.x.subspan(row * static_cast<std::size_t>(t), row), static_cast<int>(request_.experts[t].size()));
    for (const ExpertChoice& choice : request_.experts[t]) writer.choice(choice.expert, choice.weight);
  }
  tiling_ = wire::make_tiling(message.size(), options_.mtu);
  wire::Header h = header(wire::Kind::Request);
  h.count = tiling_.count;
  h.message_length = tiling_.message_bytes;
  for (int f = 0; f < tiling_.count; ++f) {
    h.fragment = static_cast<std::uint16_t>(f);
    h.offset = static_cast<std::uint32_t>(tiling_.offset(f));
    h.length = static_cast<std::uint32_t>(tiling_.length(f));
    wire::encode_header(h, tiling_.cut(message, f), heads_[f]);
  }
}

std::span<std::int32_t> HostRound::sums(std::size_t position) {
  const auto row = static_cast<std::size_t>(options_.hidden);
  return sum_.span().subspan(position * row, row);
}

// Every duck has answered. Tokens within range become floats; the others climb a rung.
void HostRound::end_rung(Instant now) {
  clock_.finished(now, clean_);
  add_times(now);
  const auto row = static_cast<std::size_t>(options_.hidden);
  std::size_t beyond = 0;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (guard_[i] >= wire::kGuardLimit) {
      tokens_[beyond++] = tokens_[i];
      continue;
    }
    fixed_to_float(sums(i), exponent_, rung_, result_.span().subspan(static_cast<std::size_t>(tokens_[i]) * row, row));
  }
  tokens_.resize(beyond);
  if (tokens_.empty()) {
    stage_ = Stage::Finished;
    return;
  }
  if (rung_ + 1 == wire::kRungsMax) {
    fail_round(
        {.code = ErrorCode::kSumOverflow,
         .message =
             fmt::format("the FFN of layer {} gives sums beyond the last fixed-point rung, or not finite, for {} of {} tokens",
                         request_.layer, beyond, request_.tokens),
         .place = fmt::format("layer {}", request_.layer),
         .next = "hidden states this large are a fault of the checkpoint or of the attention before this layer: compare with "
                 "`ductl model logits PATH --no-ducks`"});
    return;
  }
  ++counts_.repeats;
  begin_rung(rung_ + 1, now);
}

// Times do not overlap: their sum is the time from start() to finish(). docs/wire.md, "Where a round's time goes".
void HostRound::add_times(Instant now) {
  const Instant began = std::max(last_began_, sent_at_);
  const std::int64_t until_began = to_ns(began - sent_at_);
  const std::int64_t compute = std::min(compute_ns_, until_began);
  times_.send_ns += to_ns(sent_at_ - rung_start_);
  times_.compute_ns += compute;
  times_.wait_ns += until_began - compute;
  times_.fetch_ns += to_ns(now - began);
  reduce_from_ = now;
}

void HostRound::fail_round(Error error) {
  error_ = std::move(error);
  stage_ = Stage::Finished;
  for (PortState& port : ports_) port.pending.clear(0);
  for (DuckState& duck : ducks_) duck.nack = false;
}

Expected<RoundTimes> HostRound::finish(std::span<float> y, Instant now) {
  assert(finished() && y.size() == request_.x.size());
  stage_ = Stage::Idle;
  if (error_) return tl::unexpected<Error>(*std::move(error_));
  std::copy_n(result_.data(), y.size(), y.data());
  times_.reduce_ns += to_ns(now - reduce_from_);
  return times_;
}

} // namespace ductl::engine
