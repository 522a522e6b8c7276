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

} // namespace

ExpertCompute::ExpertCompute(const ExpertKernels& kernels, int tokens_max)
    : kernels_(kernels),
      tokens_max_(tokens_max),
      chosen_(static_cast<std::size_t>(tokens_max * wire::kChoicesMax)),
      x_(tokens_max),
      weight_(tokens_max),
      y_(tokens_max),
      token_(tokens_max),
      slice_guard_(tokens_max),
      guard_(tokens_max) {}

void ExpertCompute::reserve(int hidden, int experts_max) {
  const std::size_t row = wire::round_up(static_cast<std::size_t>(hidden), 16);
  if (row != row_) {
    row_ = row;
    hidden_states_ = wire::AlignedArray<float>(row * static_cast<std::size_t>(tokens_max_));
    scratch_ = wire::AlignedArray<float>(kernel_scratch_floats(tokens_max_));
    fixed_scale_ =
        wire::AlignedArray<float>((static_cast<std::size_t>(hidden) + weights::kScaleBlock - 1) / weights::kScaleBlock);
  }
  const auto experts = static_cast<std::size_t>(experts_max);
  if (seen_.size() < experts) {
    seen_.resize(experts);
    first_.resize(experts + 1);
  }
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

int ExpertCompute::prepare_job(std::size_t expert, wire::ReplyBuffer& reply) {
  int tokens = 0;
  for (std::uint32_t i = first_[expert]; i < first_[expert + 1]; ++i, ++tokens) {
    const Chosen& chosen = chosen_[i];
    token_[tokens] = chosen.token;
    weight_[tokens] = chosen.weight;
    x_[tokens] = hidden_states_.data() + row_ * chosen.token;
    y_[tokens] = reply.sums(chosen.token);
  }
  return tokens;
}

// The kernel adds into a guard of its own each time: 2^62 ("not finite") four times over would wrap to nothing.
void ExpertCompute::apply_slices(std::span<const ActiveSlice> slices, const std::byte* next, int tokens, int hidden, int rung) {
  std::array<const std::byte*, kCallSlicesMax> bytes{};
  std::array<float, kCallSlicesMax> guard_factor{};
  for (std::size_t i = 0; i < slices.size(); ++i) {
    bytes[i] = slices[i].bytes;
    guard_factor[i] = std::ldexp(slices[i].guard_factor, -8 * rung);
  }
  std::fill_n(slice_guard_.begin(), tokens, 0u);
  kernels_.forward({.slices = bytes.data(),
                    .count = static_cast<int>(slices.size()),
                    .hidden = hidden,
                    .tokens = tokens,
                    .x = x_.data(),
                    .weight = weight_.data(),
                    .fixed_scale = fixed_scale_.data(),
                    .guard_factor = guard_factor.data(),
                    .y = y_.data(),
                    .guard = slice_guard_.data(),
                    .scratch = scratch_.data(),
                    .next = next});
  for (int i = 0; i < tokens; ++i) guard_[token_[i]] = wire::add_guards(guard_[token_[i]], slice_guard_[i]);
}

int ExpertCompute::next_chosen(const ActiveLayer& layer, std::size_t expert) const {
  while (expert + 1 < layer.first.size() &&
         (first_[expert] == first_[expert + 1] || layer.first[expert] == layer.first[expert + 1]))
    ++expert;
  return expert + 1 < layer.first.size() ? static_cast<int>(expert) : -1;
}

int ExpertCompute::run(const wire::RequestView& request, const ActiveLayer& layer, int hidden, int rung, wire::ReplyBuffer& reply,
                       const std::function<Instant()>& now, const std::function<bool(Instant)>& between) {
  load_hidden(request);
  scale_fixed_point(layer, rung);
  std::fill_n(guard_.begin(), request.shape().tokens, 0u);
  int applied = 0;
  Instant last = now();
  for (int expert = next_chosen(layer, 0); expert >= 0;) {
    const auto chosen = static_cast<std::size_t>(expert);
    const int tokens = prepare_job(chosen, reply), following = next_chosen(layer, chosen + 1);
    const std::uint32_t end = layer.first[chosen + 1];
    for (std::uint32_t s = layer.first[chosen]; s < end;) {
      const std::uint32_t count = std::min(end - s, group_size(tokens));
      const std::byte* next = s + count < end  ? layer.slices[s + count].bytes
                              : following >= 0 ? layer.slices[layer.first[static_cast<std::size_t>(following)]].bytes
                                               : nullptr;
      apply_slices(std::span(layer.slices).subspan(s, count), next, tokens, hidden, rung);
      s += count;
      applied += static_cast<int>(count);
      const Instant time = now();
      if (time - last < kBetween) continue;
      last = time;
      if (!between(time)) return -1;
    }
    expert = following;
  }
  for (int t = 0; t < request.shape().tokens; ++t) reply.set_guard(t, guard_[t]);
  return applied;
}

} // namespace ductl::agent
