#include "engine/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace ductl::engine {
namespace {

constexpr float kTemperatureMax = 10, kPenaltyMax = 10;
constexpr int kTopKMax = 1 << 24;

Expected<void> in_range(const char* field, float value, float lowest, float highest) {
  if (value >= lowest && value <= highest) return {}; // false for NaN
  return fail(ErrorCode::kRequestValue, fmt::format("{} is {}, outside {} to {}", field, value, lowest, highest), field,
              fmt::format("give a {} between {} and {}", field, lowest, highest));
}

// SplitMix64's finaliser over a counter: the n-th draw of a seed without the draws before it.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// In [0, 1). Two rounds keep neighbouring seeds and neighbouring positions apart.
double uniform(std::uint64_t seed, std::uint64_t position) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;
  const std::uint64_t bits = mix(mix(seed + kGolden) + (position + 1) * kGolden);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// Each token of the history counts once, however often it was said.
void penalise(std::span<const int> history, float penalty, std::span<float> logits) {
  static thread_local std::vector<bool> seen;
  seen.assign(logits.size(), false);
  for (const int id : history) {
    const auto at = static_cast<std::size_t>(id);
    if (id < 0 || at >= logits.size() || seen[at]) continue;
    seen[at] = true;
    logits[at] = logits[at] < 0 ? logits[at] * penalty : logits[at] / penalty;
  }
}

int argmax(std::span<const float> logits) { // the lowest id among equals; NaN never wins
  std::size_t best = 0;
  float value = -std::numeric_limits<float>::infinity();
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] > value) best = id, value = logits[id];
  }
  return static_cast<int>(best);
}

struct Candidate {
  int id;
  double weight; // exp((logit - max) / temperature): 1 for the best
};

bool likelier(const Candidate& a, const Candidate& b) { return a.weight != b.weight ? a.weight > b.weight : a.id < b.id; }
bool less_likely(const Candidate& a, const Candidate& b) { return likelier(b, a); }

double total(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += c.weight;
  return sum;
}

// The shortest list of likeliest candidates whose share reaches top_p; never empty.
void keep_top_p(std::vector<Candidate>& candidates, double top_p) {
  const double wanted = top_p * total(candidates);
  // A heap instead of a sort: as a rule a few dozen of 150,000 are taken. They are gathered at the end, likeliest last.
  std::make_heap(candidates.begin(), candidates.end(), less_likely);
  auto end = candidates.end();
  double sum = 0;
  do {
    std::pop_heap(candidates.begin(), end, less_likely);
    --end;
    sum += end->weight;
  } while (sum < wanted && end != candidates.begin());
  candidates.erase(candidates.begin(), end);
  std::reverse(candidates.begin(), candidates.end());
}

int draw(const std::vector<Candidate>& candidates, double u) {
  const double wanted = u * total(candidates);
  double sum = 0;
  for (const Candidate& c : candidates) {
    sum += c.weight;
    if (sum > wanted) return c.id;
  }
  return candidates.back().id; // only by rounding
}

} // namespace

Expected<void> check(const SamplingParams& params) {
  if (auto ok = in_range("temperature", params.temperature, 0, kTemperatureMax); !ok) return ok;
  if (auto ok = in_range("top_p", params.top_p, 0, 1); !ok) return ok;
  if (auto ok = in_range("min_p", params.min_p, 0, 1); !ok) return ok;
  if (auto ok = in_range("repetition_penalty", params.repetition_penalty, 0.01f, kPenaltyMax); !ok) return ok;
  if (params.top_k < 0 || params.top_k > kTopKMax) {
    return fail(ErrorCode::kRequestValue, fmt::format("top_k is {}, outside 0 to {}", params.top_k, kTopKMax), "top_k",
                "give the number of tokens to choose from, or 0 for all");
  }
  return {};
}

int sample(const SamplingParams& params, std::span<const int> history, std::uint64_t position, std::span<float> logits,
           int vocab_used) {
  const auto used = logits.first(std::min(logits.size(), static_cast<std::size_t>(std::max(vocab_used, 0))));
  if (params.repetition_penalty != 1) penalise(history, params.repetition_penalty, used);
  const int best = argmax(used);
  if (params.temperature == 0 || used.empty()) return best;
  const double max = used[static_cast<std::size_t>(best)];
  if (!std::isfinite(max)) return best; // an infinite logit is certain; nothing finite leaves no choice

  static thread_local std::vector<Candidate> candidates; // keeps its memory from token to token
  candidates.clear();
  for (std::size_t id = 0; id < used.size(); ++id) {
    const double weight = std::exp((used[id] - max) / params.temperature);
    if (weight > 0) candidates.push_back({static_cast<int>(id), weight}); // false for NaN
  }
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + params.top_k, candidates.end(), likelier);
    candidates.resize(static_cast<std::size_t>(params.top_k));
    std::sort(candidates.begin(), candidates.end(), likelier); // nth_element leaves an order that the library chooses
  }
  if (params.top_p < 1) keep_top_p(candidates, params.top_p);
  if (params.min_p > 0) std::erase_if(candidates, [&](const Candidate& c) { return c.weight < params.min_p; });
  return draw(candidates, uniform(params.seed, position));
}

} // namespace ductl::engine
