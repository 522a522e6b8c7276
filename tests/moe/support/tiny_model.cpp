#include "tests/moe/support/tiny_model.hpp"

#include "agent/wire/reply.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ductl::testing {
namespace {

float coefficient(const TinyModel& model, int layer, int expert, int slice) {
  const int code = (layer * model.experts + expert) * model.slices + slice;
  return 0.25f + 0.03125f * static_cast<float>(code % 61) * (code % 2 == 0 ? 1.0f : -1.0f);
}

// As a kernel would convert: to nearest, wrapping beyond 32 bits.
std::int32_t fixed(double value) {
  if (!(std::abs(value) < 9e18)) return std::numeric_limits<std::int32_t>::min();
  return static_cast<std::int32_t>(static_cast<std::uint64_t>(std::llrint(value)));
}

std::int32_t term(float weight, float c, float x, float scale) { return fixed(double{weight} * c * x * scale); }

std::uint64_t guard_of(float guard_factor, float weight, std::span<const float> x) {
  double largest = 0;
  for (const float v : x)
    largest = std::isnan(v) ? std::numeric_limits<double>::infinity() : std::max(largest, double{std::abs(v)});
  const double guard = std::ceil(double{guard_factor} * std::abs(weight) * largest) + 1;
  return guard < double(wire::kGuardMax) ? static_cast<std::uint64_t>(guard) : wire::kGuardMax;
}

void slice_forward(const agent::ExpertJob& job, int number) {
  float c;
  std::memcpy(&c, job.slices[number], sizeof c);
  for (int t = 0; t < job.tokens; ++t) {
    for (int i = 0; i < job.hidden; ++i) {
      const auto sum = static_cast<std::uint32_t>(job.y[t][i]) +
                       static_cast<std::uint32_t>(term(job.weight[t], c, job.x[t][i], job.fixed_scale[i / weights::kScaleBlock]));
      job.y[t][i] = static_cast<std::int32_t>(sum);
    }
    job.guard[t] += guard_of(job.guard_factor[number], job.weight[t], {job.x[t], static_cast<std::size_t>(job.hidden)});
  }
}

void forward(const agent::ExpertJob& job) {
  for (int number = 0; number < job.count; ++number) slice_forward(job, number);
}

std::size_t blocks(const TinyModel& model) { return (static_cast<std::size_t>(model.hidden) + 127) / 128; }

} // namespace

const agent::ExpertKernels& tiny_kernels() {
  static const agent::ExpertKernels kTable{.name = "tiny", .forward = &forward, .down_only = nullptr};
  return kTable;
}

TinyStore::TinyStore(const TinyModel& model, int duck, int ducks, std::uint32_t epoch)
    : model_(model),
      storage_(static_cast<std::size_t>(model.layers * model.experts * model.slices) * weights::kSliceAlignment),
      index_(std::make_shared<agent::ActiveIndex>()) {
  index_->epoch = epoch;
  index_->hidden = model.hidden;
  const float scale = std::ldexp(1.0f, model.exponent);
  std::byte* next = storage_.data();
  for (int layer = 0; layer < model.layers; ++layer) {
    agent::ActiveLayer active;
    active.fixed_scale.assign(blocks(model), scale);
    active.first.push_back(0);
    for (int expert = 0; expert < model.experts; ++expert) {
      for (int slice = 0; slice < model.slices; ++slice) {
        if ((layer + expert * 3 + slice) % ducks != duck) continue;
        const float c = coefficient(model, layer, expert, slice);
        std::memcpy(next, &c, sizeof c);
        active.slices.push_back({.expert = static_cast<std::uint16_t>(expert),
                                 .index = static_cast<std::uint16_t>(slice),
                                 .bytes = next,
                                 .guard_factor = std::abs(c) * scale});
        next += weights::kSliceAlignment;
      }
      active.first.push_back(static_cast<std::uint32_t>(active.slices.size()));
    }
    index_->layers.push_back(std::move(active));
  }
}

Expected<void> TinyStore::set_model(const agent::StoreModel&) { return fail(ErrorCode::kInternal, "a tiny store is born full"); }
Expected<void> TinyStore::put(weights::SliceId, std::span<const std::byte>, weights::SliceDigest) {
  return fail(ErrorCode::kInternal, "a tiny store is born full");
}
Expected<void> TinyStore::activate(std::uint32_t epoch, std::span<const weights::SliceId>) {
  auto next = std::make_shared<agent::ActiveIndex>(*index_);
  next->epoch = epoch;
  index_ = std::move(next);
  return {};
}
std::uint64_t TinyStore::count() const {
  std::uint64_t count = 0;
  for (const auto& layer : index_->layers) count += layer.slices.size();
  return count;
}

TinyRequest random_request(const TinyModel& model, int layer, int lane, int tokens, std::mt19937_64& random) {
  TinyRequest r;
  std::normal_distribution<float> normal;
  r.x.resize(static_cast<std::size_t>(tokens * model.hidden));
  for (float& v : r.x) v = normal(random);
  for (int t = 0; t < tokens; ++t) {
    std::vector<std::uint16_t> order(static_cast<std::size_t>(model.experts));
    for (int e = 0; e < model.experts; ++e) order[e] = static_cast<std::uint16_t>(e);
    std::shuffle(order.begin(), order.end(), random);
    auto& choices = r.choices.emplace_back();
    for (int k = 0; k < std::min(2, model.experts); ++k)
      choices.push_back({.expert = order[k], .weight = std::abs(normal(random))});
  }
  for (const auto& choices : r.choices) r.choice_spans.emplace_back(choices);
  r.request = {.layer = layer, .lane = lane, .tokens = tokens, .x = r.x, .experts = r.choice_spans};
  return r;
}

void amplify(TinyRequest& request, const TinyModel& model, int token, float factor) {
  const auto row = static_cast<std::size_t>(model.hidden);
  for (std::size_t i = 0; i < row; ++i) request.x[row * static_cast<std::size_t>(token) + i] *= factor;
}

std::vector<float> expected_sum(const TinyModel& model, const engine::FfnRequest& request, int* rungs) {
  const auto row = static_cast<std::size_t>(model.hidden);
  std::vector<float> y(request.x.size(), std::numeric_limits<float>::quiet_NaN());
  if (rungs != nullptr) *rungs = 0;
  for (int t = 0; t < request.tokens; ++t) {
    const auto x = request.x.subspan(row * static_cast<std::size_t>(t), row);
    for (int rung = 0; rung < 3; ++rung) {
      const float scale = std::ldexp(1.0f, model.exponent - 8 * rung);
      std::uint64_t guard = 0;
      std::vector<std::int64_t> sum(row);
      for (const engine::ExpertChoice& choice : request.experts[t]) {
        for (int slice = 0; slice < model.slices; ++slice) {
          const float c = coefficient(model, request.layer, choice.expert, slice);
          guard = wire::add_guards(guard, guard_of(std::abs(c) * scale, choice.weight, x));
          for (std::size_t i = 0; i < row; ++i) sum[i] += term(choice.weight, c, x[i], scale);
        }
      }
      if (rungs != nullptr) *rungs = std::max(*rungs, rung);
      if (guard >= wire::kGuardLimit) continue;
      for (std::size_t i = 0; i < row; ++i) {
        y[row * static_cast<std::size_t>(t) + i] =
            static_cast<float>(std::ldexp(static_cast<double>(sum[i]), 8 * rung - model.exponent));
      }
      break;
    }
  }
  return y;
}

weights::Manifest tiny_manifest(const TinyModel& model) {
  weights::Manifest manifest;
  manifest.model_id = "tiny";
  manifest.hidden = model.hidden;
  for (int layer = 0; layer < model.layers; ++layer) {
    weights::LayerManifest& entry = manifest.layers.emplace_back();
    entry.layer = layer;
    entry.exponent.assign(blocks(model), static_cast<std::int16_t>(model.exponent));
  }
  return manifest;
}

weights::ModelConfig tiny_config(const TinyModel& model) {
  weights::ModelConfig config;
  config.hidden = model.hidden;
  config.layers = model.layers;
  return config;
}

} // namespace ductl::testing
