#include "engine/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ductl::engine {
namespace {

double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; }

// The dimension whose wave turns `rotations` times within the original context.
double yarn_dimension(const weights::Rope& rope, int dims, double rotations) {
  const double turns = rope.original_max_position / (rotations * 2 * std::numbers::pi);
  return dims * std::log(turns) / (2 * std::log(rope.theta));
}

// How far dimension i is interpolated: 0 below `low` (fast waves stay), 1 from `high` on.
struct YarnRamp {
  double low, high;
  YarnRamp(const weights::Rope& rope, int dims)
      : low(std::max(std::floor(yarn_dimension(rope, dims, rope.beta_fast)), 0.0)),
        high(std::min(std::ceil(yarn_dimension(rope, dims, rope.beta_slow)), double(dims - 1))) {
    if (low == high) high += 0.001;
  }
  [[nodiscard]] double operator()(int i) const { return std::clamp((i - low) / (high - low), 0.0, 1.0); }
};

double yarn_amplitude(const weights::Rope& rope) {
  if (rope.mscale == 0 || rope.mscale_all_dim == 0) return yarn_mscale(rope.factor, 1);
  return yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim);
}

} // namespace

RopeTable::RopeTable(const weights::Rope& rope, int dims) : inverse_frequency_(std::size_t(dims / 2)) {
  for (int i = 0; i < dims / 2; ++i) {
    double frequency = std::pow(rope.theta, -2.0 * i / dims);
    if (rope.scaling == weights::RopeScaling::Yarn) {
      const double ramp = YarnRamp(rope, dims)(i);
      frequency = frequency * (1 - ramp) + frequency / rope.factor * ramp;
    }
    inverse_frequency_[std::size_t(i)] = float(frequency);
  }
  if (rope.scaling == weights::RopeScaling::Yarn) amplitude_ = float(yarn_amplitude(rope));
}

void RopeTable::angles(int position, std::span<float> out) const {
  for (int i = 0; i < pairs(); ++i) {
    const float angle = float(position) * inverse_frequency_[std::size_t(i)];
    out[std::size_t(i)] = float(std::cos(double(angle))) * amplitude_;
    out[std::size_t(pairs() + i)] = float(std::sin(double(angle))) * amplitude_;
  }
}

void rotate_half_split(std::span<const float> angles, float* x) {
  const std::size_t pairs = angles.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    const float a = x[i], b = x[i + pairs], cosine = angles[i], sine = angles[pairs + i];
    x[i] = a * cosine - b * sine;
    x[i + pairs] = a * sine + b * cosine;
  }
}

void rotate_interleaved(std::span<const float> angles, float* x) {
  const std::size_t pairs = angles.size() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], cosine = angles[i], sine = angles[pairs + i];
    x[2 * i] = a * cosine - b * sine;
    x[2 * i + 1] = a * sine + b * cosine;
  }
}

float attention_scale(const weights::ModelConfig& config) {
  const bool latent = config.mla.kv_lora_rank > 0;
  const int dims = latent ? config.mla.nope_dim + config.mla.rope_dim : config.head_dim;
  double scale = 1 / std::sqrt(double(dims));
  if (latent && config.rope.scaling == weights::RopeScaling::Yarn && config.rope.mscale_all_dim != 0) {
    const double mscale = yarn_mscale(config.rope.factor, config.rope.mscale_all_dim);
    scale *= mscale * mscale;
  }
  return float(scale);
}

} // namespace ductl::engine
