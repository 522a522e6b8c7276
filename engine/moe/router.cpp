#include "engine/moe/router.hpp"

#include "engine/attention/kernels/elementwise.hpp"
#include "weights/slice.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace ductl::engine {
namespace {

using weights::ModelConfig;
using weights::Moe;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// The largest of values[first..last) whose index `taken` does not hold; the lowest of equals.
int best_of(std::span<const float> values, int first, int last, std::span<const ExpertChoice> taken) {
  int best = -1;
  for (int i = first; i < last; ++i) {
    bool free = true;
    for (const ExpertChoice& choice : taken) free = free && choice.expert != i;
    if (free && (best < 0 || values[std::size_t(i)] > values[std::size_t(best)])) best = i;
  }
  return best;
}

void choose(std::span<const float> values, std::span<ExpertChoice> out) {
  for (std::size_t k = 0; k < out.size(); ++k)
    out[k].expert = std::uint16_t(best_of(values, 0, int(values.size()), out.first(k)));
}

float sigmoid(float x) {
  const float e = exp_nonpositive(-std::fabs(x));
  return (std::signbit(x) ? e : 1.0F) / (1.0F + e);
}

// A group counts as the sum of its two largest values (of its only one).
float group_score(std::span<const float> values, int first, int last) {
  ExpertChoice top[1];
  top[0].expert = std::uint16_t(best_of(values, first, last, {}));
  const int second = best_of(values, first, last, top);
  return values[top[0].expert] + (second < 0 ? 0.0F : values[std::size_t(second)]);
}

// All groups but the best `kept` become minus infinity (not 0: biased scores may be negative). The lower index wins a tie.
void mask_groups(std::span<float> values, const Moe& moe) {
  const int size = moe.experts / moe.groups;
  thread_local std::vector<float> scores;
  scores.resize(std::size_t(moe.groups));
  for (int g = 0; g < moe.groups; ++g) scores[std::size_t(g)] = group_score(values, g * size, (g + 1) * size);
  for (int g = 0; g < moe.groups; ++g) {
    int better = 0;
    for (int other = 0; other < moe.groups; ++other) {
      const float a = scores[std::size_t(other)], b = scores[std::size_t(g)];
      better += a > b || (a == b && other < g) ? 1 : 0;
    }
    if (better < moe.groups_kept) continue;
    for (int i = g * size; i < (g + 1) * size; ++i) values[std::size_t(i)] = kMasked;
  }
}

void route_sigmoid(const Moe& moe, std::span<const float> scores, std::span<const float> bias, std::span<ExpertChoice> out) {
  thread_local std::vector<float> values, biased;
  values.resize(scores.size());
  biased.resize(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    values[i] = sigmoid(scores[i]);
    biased[i] = values[i] + (bias.empty() ? 0.0F : bias[i]);
  }
  if (moe.groups > moe.groups_kept) mask_groups(biased, moe);
  choose(biased, out);
  float sum = 0;
  for (const ExpertChoice& choice : out) sum += values[choice.expert];
  const float divisor = moe.normalise ? sum + 1e-20F : 1.0F;
  for (ExpertChoice& choice : out) choice.weight = values[choice.expert] / divisor * float(moe.scale);
}

void route_softmax(const Moe& moe, std::span<const float> scores, std::span<ExpertChoice> out) {
  choose(scores, out); // the order of scores is that of probabilities
  const float largest = scores[out[0].expert];
  float sum = 0;
  for (ExpertChoice& choice : out) {
    choice.weight = exp_nonpositive(scores[choice.expert] - largest);
    sum += choice.weight;
  }
  if (!moe.normalise) {
    sum = 0;
    for (const float score : scores) sum += exp_nonpositive(score - largest);
  }
  for (ExpertChoice& choice : out) choice.weight = choice.weight / sum * float(moe.scale);
}

} // namespace

Router::Router(ModelConfig config, std::vector<std::vector<float>> bias) : config_(std::move(config)), bias_(std::move(bias)) {
  bias_.resize(std::size_t(weights::decoder_layers(config_)));
}

Expected<Router> Router::load(const weights::Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  std::vector<std::vector<float>> bias(std::size_t(weights::decoder_layers(config)));
  for (int layer = 0; layer < weights::decoder_layers(config); ++layer) {
    if (!config.moe.sigmoid_scores || !weights::is_moe_layer(config, layer)) continue;
    const std::string name = fmt::format("model.layers.{}.mlp.gate.e_score_correction_bias", layer);
    auto found = checkpoint.vector(name, config.moe.experts);
    if (!found) return tl::unexpected(found.error());
    const auto bad = std::find_if(found->begin(), found->end(), [](float value) { return !std::isfinite(value); });
    if (bad != found->end())
      return fail(ErrorCode::kWeightNotFinite, fmt::format("tensor \"{}\" is {} at [{}]", name, *bad, bad - found->begin()),
                  checkpoint.folder().string(),
                  "the checkpoint is damaged, or was exported from a run that diverged: fetch it again");
    bias[std::size_t(layer)] = std::move(*found);
  }
  return Router(config, std::move(bias));
}

int Router::expert_choices(int layer) const {
  if (!weights::is_moe_layer(config_, layer)) return 1;
  return config_.moe.experts_per_token + (weights::shared_expert(config_, layer) >= 0 ? 1 : 0);
}

void Router::route(int layer, std::span<const float> scores, std::span<ExpertChoice> out) const {
  assert(int(out.size()) == expert_choices(layer));
  if (!weights::is_moe_layer(config_, layer)) {
    out[0] = {0, 1.0F};
    return;
  }
  assert(int(scores.size()) == config_.moe.experts);
  const auto routed = out.first(std::size_t(config_.moe.experts_per_token));
  if (config_.moe.sigmoid_scores)
    route_sigmoid(config_.moe, scores, bias_[std::size_t(layer)], routed);
  else
    route_softmax(config_.moe, scores, routed);
  if (out.size() > routed.size()) out.back() = {std::uint16_t(weights::shared_expert(config_, layer)), 1.0F};
}

} // namespace ductl::engine
