// Rotary positions: angles of a batch's positions, and the rotation in both layouts. Pure.
//
// As the reference implementation has it: inverse frequencies and angles in float, then cosine and sine of that angle.
// YaRN (docs/models.md): frequencies interpolated by a ramp over the dimensions, at every length; the amplitude goes on
// cosine and sine, the factor of the softmax (mscale_all_dim, DeepSeek) is attention_scale()'s.
#pragma once

#include "weights/model_config.hpp"

#include <span>
#include <vector>

namespace ductl::engine {

class RopeTable {
public:
  // `dims` rotated dimensions (even), of which dims/2 pairs.
  RopeTable(const weights::Rope& rope, int dims);
  [[nodiscard]] int pairs() const { return int(inverse_frequency_.size()); }
  [[nodiscard]] float amplitude() const { return amplitude_; }
  [[nodiscard]] std::span<const float> inverse_frequency() const { return inverse_frequency_; }
  // cosine | sine of one position, 2 * pairs() floats, amplitude included.
  void angles(int position, std::span<float> out) const;

private:
  std::vector<float> inverse_frequency_;
  float amplitude_ = 1;
};

// (x[i], x[i + d/2]) for Llama and Qwen3; (x[2i], x[2i+1]) for DeepSeek. `angles` as RopeTable::angles() wrote it.
void rotate_half_split(std::span<const float> angles, float* x);
void rotate_interleaved(std::span<const float> angles, float* x);

// What scores are multiplied by before the softmax.
[[nodiscard]] float attention_scale(const weights::ModelConfig& config);

} // namespace ductl::engine
