#include "agent/expert_compute.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace ductl::agent {

static_assert(kCallTokensMax >= wire::kTokensMax, "a request must fit one kernel call");

namespace {

// Slices a call: with few tokens as many as still let frames in often enough, with many as share a row panel of the sums.
std::uint32_t group_size(int tokens) { return tokens <= 3 ? 4 : static_cast<std::uint32_t>(kCallSlicesMax); }

// sum[i] += term[i], wrapping.
void add_row(std::int32_t* sum, const std::int32_t* term, int count) {
  for (int i = 0; i < count; ++i)
    sum[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum[i]) + static_cast<std::uint32_t>(term[i]));
}

} // namespace

struct alignas(64) ExpertCompute::Worker { // by itself in its cache lines: others read and write theirs meanwhile
  wire::AlignedArray<std::int32_t> sums;   // [tokens_max][row]; of the first worker empty
  wire::AlignedArray<float> scratch;
  std::vector<std::int32_t*> y;                  // [chosen]
  std::vector<std::uint64_t> slice_guard, guard; // of one unit by position, of the round by token
  int applied = 0;                               // slices; 0 = the sums were not begun
};

ExpertCompute::ExpertCompute(const ExpertKernels& kernels, int tokens_max, const ThreadPlan& plan)
    : kernels_(kernels),
      tokens_max_(tokens_max),
      plan_(plan),
      chosen_(static_cast<std::size_t>(tokens_max * wire::kChoicesMax)),
      x_(chosen_.size()),
      weight_(chosen_.size()),
      crew_(plan, [this](int member) {
        work(*workers_[static_cast<std::size_t>(plan_.network_apart ? member : member + 1)], [] { return true; });
      }) {
  for (int i = 0; i < plan.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.y.resize(chosen_.size());
    worker.slice_guard.resize(static_cast<std::size_t>(tokens_max));
    worker.guard.resize(static_cast<std::size_t>(tokens_max));
    worker.scratch = wire::AlignedArray<float>(kernel_scratch_floats(tokens_max));
  }
}

ExpertCompute::~ExpertCompute() = default;

void ExpertCompute::reserve(int hidden, const ActiveLayer& layer) {
  const std::size_t row = wire::round_up(static_cast<std::size_t>(hidden), 16);
  if (row != row_) {
    row_ = row;
    const std::size_t rows = row * static_cast<std::size_t>(tokens_max_);
    hidden_states_ = wire::AlignedArray<float>(rows);
    fixed_scale_ =
        wire::AlignedArray<float>((static_cast<std::size_t>(hidden) + weights::kScaleBlock - 1) / weights::kScaleBlock);
    for (std::size_t i = 1; i < workers_.size(); ++i) workers_[i]->sums = wire::AlignedArray<std::int32_t>(rows);
  }
  if (seen_.size() + 1 < layer.first.size()) {
    seen_.resize(layer.first.size() - 1);
    first_.resize(layer.first.size());
  }
  if (units_.size() < layer.slices.size()) units_.resize(layer.slices.size());
}

bool ExpertCompute::gather(const wire::RequestView& request, const ActiveLayer& layer) {
  const std::size_t experts = layer.first.size() - 1;
  assert(experts <= seen_.size());
  std::fill_n(first_.begin(), experts + 1, 0u);
  std::fill_n(seen_.begin(), experts, -1);
  int index = 0;
  for (int t = 0; t < request.shape().tokens; ++t) {
    for (const int end = index + request.choices_of(t); index < end; ++index) {
      const auto expert = static_cast<std::size_t>(request.choice(index).expert);
      if (expert >= experts || seen_[expert] == t) return false;
      seen_[expert] = t;
      ++first_[expert + 1];
    }
  }
  for (std::size_t e = 0; e < experts; ++e) first_[e + 1] += first_[e];
  std::copy_n(first_.begin(), experts, seen_.begin()); // from here on: where the expert's next token goes
  index = 0;
  for (int t = 0; t < request.shape().tokens; ++t) {
    for (const int end = index + request.choices_of(t); index < end; ++index) {
      const wire::Choice choice = request.choice(index);
      chosen_[seen_[choice.expert]++] = {.token = static_cast<std::uint16_t>(t), .weight = choice.weight};
    }
  }
  return true;
}

void ExpertCompute::load_hidden(const wire::RequestView& request) {
  const auto hidden = static_cast<std::size_t>(request.shape().hidden);
  for (int t = 0; t < request.shape().tokens; ++t) request.hidden_state(t, hidden_states_.span().subspan(row_ * t, hidden));
}

void ExpertCompute::scale_fixed_point(const ActiveLayer& layer, int rung) {
  assert(layer.fixed_scale.size() == fixed_scale_.size());
  for (std::size_t b = 0; b < layer.fixed_scale.size(); ++b) fixed_scale_.data()[b] = std::ldexp(layer.fixed_scale[b], -8 * rung);
}

// Where each chosen token's hidden state is; the same for every thread.
void ExpertCompute::point_to_tokens() {
  for (std::size_t i = 0; i < first_[layer_->first.size() - 1]; ++i) {
    x_[i] = hidden_states_.data() + row_ * chosen_[i].token;
    weight_[i] = chosen_[i].weight;
  }
}

// Each chosen expert's slices, a few at a time. Several threads get smaller units towards the end, so that they end together.
void ExpertCompute::cut_units(const ActiveLayer& layer) {
  unit_count_ = 0;
  std::uint32_t left = 0;
  const std::size_t experts = layer.first.size() - 1;
  for (std::size_t e = 0; e < experts; ++e)
    if (tokens_of(e) > 0) left += layer.first[e + 1] - layer.first[e];
  const auto shares = 2 * static_cast<std::uint32_t>(plan_.threads);
  for (std::size_t e = 0; e < experts; ++e) {
    if (tokens_of(e) == 0) continue;
    const std::uint32_t group = group_size(tokens_of(e)), end = layer.first[e + 1];
    for (std::uint32_t s = layer.first[e]; s < end;) {
      const std::uint32_t most = plan_.threads == 1 ? group : std::clamp(left / shares, 1u, group);
      const std::uint32_t count = std::min(end - s, most);
      units_[unit_count_++] = {.expert = static_cast<std::uint32_t>(e), .first = s, .count = count};
      s += count;
      left -= count;
    }
  }
}

std::int32_t* ExpertCompute::sums_of(Worker& worker, int token) const {
  return worker.sums.size() == 0 ? reply_->sums(token) : worker.sums.data() + row_ * static_cast<std::size_t>(token);
}

// A thread's first unit of a round: its sums and guards are zero, and its jobs know where they are.
void ExpertCompute::begin(Worker& worker) const {
  if (worker.sums.size() != 0)
    for (int t = 0; t < tokens_; ++t) std::fill_n(sums_of(worker, t), hidden_, 0);
  std::fill_n(worker.guard.begin(), tokens_, 0u);
  for (std::size_t i = 0; i < first_[layer_->first.size() - 1]; ++i) worker.y[i] = sums_of(worker, chosen_[i].token);
}

// The kernel adds into a guard of its own each time: 2^62 ("not finite") four times over would wrap to nothing.
void ExpertCompute::apply(Worker& worker, const Unit& unit, const std::byte* next) const {
  const std::span<const ActiveSlice> slices = std::span(layer_->slices).subspan(unit.first, unit.count);
  const std::uint32_t from = first_[unit.expert];
  const int tokens = tokens_of(unit.expert);
  std::array<const std::byte*, kCallSlicesMax> bytes{};
  std::array<float, kCallSlicesMax> guard_factor{};
  for (std::size_t i = 0; i < slices.size(); ++i) {
    bytes[i] = slices[i].bytes;
    guard_factor[i] = std::ldexp(slices[i].guard_factor, -8 * rung_);
  }
  std::fill_n(worker.slice_guard.begin(), tokens, 0u);
  kernels_.forward({.format = format_,
                    .slices = bytes.data(),
                    .count = static_cast<int>(slices.size()),
                    .hidden = hidden_,
                    .tokens = tokens,
                    .x = x_.data() + from,
                    .weight = weight_.data() + from,
                    .fixed_scale = fixed_scale_.data(),
                    .guard_factor = guard_factor.data(),
                    .y = worker.y.data() + from,
                    .guard = worker.slice_guard.data(),
                    .scratch = worker.scratch.data(),
                    .next = next});
  for (int i = 0; i < tokens; ++i) {
    std::uint64_t& guard = worker.guard[chosen_[from + static_cast<std::uint32_t>(i)].token];
    guard = wire::add_guards(guard, worker.slice_guard[static_cast<std::size_t>(i)]);
  }
  worker.applied += static_cast<int>(slices.size());
}

// Units from the counter until there is none, or the round is not wanted any more.
template <class Between> void ExpertCompute::work(Worker& worker, const Between& between) {
  const auto claim = [this] { return next_unit_.fetch_add(1, std::memory_order_relaxed); };
  std::uint32_t unit = claim();
  if (unit >= unit_count_) return;
  begin(worker);
  while (unit < unit_count_ && !stopped_.load(std::memory_order_relaxed)) {
    const std::uint32_t following = claim();
    apply(worker, units_[unit], following < unit_count_ ? layer_->slices[units_[following].first].bytes : nullptr);
    if (!between()) return;
    unit = following;
  }
}

// This thread's part: a share of the units, or only to look after the caller's frames while the others compute. False = stop.
bool ExpertCompute::work_here(const std::function<Instant()>& now, const std::function<bool(Instant)>& between) {
  bool wanted = true;
  if (plan_.network_apart) {
    while (wanted && (next_unit_.load(std::memory_order_relaxed) < unit_count_ || crew_.busy())) wanted = between(now());
    return wanted;
  }
  Instant last = now();
  work(*workers_.front(), [&] {
    const Instant time = now();
    if (time - last < kBetween) return true;
    last = time;
    return wanted = between(time);
  });
  return wanted;
}

// Adds up what the threads have, a token at a time. Returns the slices applied.
int ExpertCompute::collect(wire::ReplyBuffer& reply) {
  int applied = 0;
  for (const auto& worker : workers_) applied += worker->applied;
  for (int t = 0; t < tokens_; ++t) {
    std::uint64_t guard = 0;
    for (const auto& worker : workers_) {
      if (worker->applied == 0) continue;
      guard = wire::add_guards(guard, worker->guard[static_cast<std::size_t>(t)]);
      if (worker->sums.size() != 0) add_row(reply.sums(t), sums_of(*worker, t), hidden_);
    }
    reply.complete(t, guard);
  }
  return applied;
}

int ExpertCompute::run(const wire::RequestView& request, const ActiveIndex& index, int layer, int rung, wire::ReplyBuffer& reply,
                       const std::function<Instant()>& now, const std::function<bool(Instant)>& between) {
  layer_ = &index.layers[static_cast<std::size_t>(layer)];
  reply_ = &reply;
  format_ = index.format;
  hidden_ = index.hidden;
  tokens_ = request.shape().tokens;
  rung_ = rung;
  load_hidden(request);
  scale_fixed_point(*layer_, rung);
  point_to_tokens();
  cut_units(*layer_);
  for (const auto& worker : workers_) worker->applied = 0;
  stopped_.store(false, std::memory_order_relaxed);
  next_unit_.store(0, std::memory_order_relaxed);
  const bool together = crew_.size() > 0 && unit_count_ > 0;
  if (together) crew_.begin();
  const bool wanted = work_here(now, between);
  if (!wanted) stopped_.store(true, std::memory_order_relaxed);
  if (together) crew_.end();
  return wanted ? collect(reply) : -1;
}

} // namespace ductl::agent
