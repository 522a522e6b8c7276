// A slice with its activations, ready to run, for kernel tests and the benchmark.
#pragma once

#include "agent/kernels/expert.hpp"
#include "weights/fixed_point.hpp"
#include "weights/slice.hpp"
#include "weights/tile.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace ductl::agent::test {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
template <class T> using Aligned = std::unique_ptr<T[], Free>;
template <class T> Aligned<T> aligned(std::size_t count) {
  const std::size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
  auto* memory = static_cast<T*>(std::aligned_alloc(64, bytes));
  std::memset(static_cast<void*>(memory), 0, bytes);
  return Aligned<T>(memory);
}

// Random finite codes of a gaussian-like spread, random scales; a valid slice without a checkpoint.
inline void fill_random_slice(std::byte* slice, int hidden, std::mt19937& random) {
  const weights::SliceLayout layout = weights::slice_layout(hidden);
  std::memset(slice, 0, layout.panel);
  std::uniform_real_distribution<float> scale(0.0005f, 0.002f);
  for (int i = 0; i < 3 * layout.scale_blocks; ++i) {
    const float value = scale(random);
    std::memcpy(slice + sizeof(float) * static_cast<std::size_t>(i), &value, sizeof value);
  }
  std::normal_distribution<float> gauss(0, 60);
  std::vector<weights::Fp9> pool(4096);
  for (weights::Fp9& code : pool) code = weights::fp9_round(gauss(random));
  weights::TileCodes codes;
  for (std::size_t at = layout.panel; at < layout.bytes; at += weights::kTileBytes) {
    for (auto& row : codes.code)
      for (weights::Fp9& code : row) code = pool[random() % pool.size()];
    weights::store_tile(codes, slice + at);
  }
}

class Job {
public:
  Job(int hidden, int tokens_max, unsigned seed)
      : hidden_(hidden),
        tokens_max_(tokens_max),
        slice_(aligned<std::byte>(weights::slice_layout(hidden).bytes)),
        scratch_(aligned<float>(kernel_scratch_floats(hidden, tokens_max))),
        random_(seed) {
    fill_random_slice(slice_.get(), hidden, random_);
    std::normal_distribution<float> gauss(0, 1);
    std::uniform_real_distribution<float> weight(0.05f, 1.0f);
    for (int t = 0; t < tokens_max; ++t) {
      x_.emplace_back(static_cast<std::size_t>(hidden));
      for (float& value : x_.back()) value = gauss(random_);
      weight_.push_back(weight(random_));
    }
    fixed_scale_.assign(static_cast<std::size_t>(weights::slice_layout(hidden).scale_blocks), 0x1p20f);
    for (std::size_t b = 0; b < fixed_scale_.size(); ++b) fixed_scale_[b] = b % 2 == 0 ? 0x1p20f : 0x1p18f;
    clear();
  }

  void clear() {
    y_.assign(static_cast<std::size_t>(tokens_max_), std::vector<std::int32_t>(static_cast<std::size_t>(hidden_), 0));
    guard_.assign(static_cast<std::size_t>(tokens_max_), 0);
  }

  // Tokens [first, first + count) of this job.
  void run(const ExpertKernels& kernels, int first, int count) {
    const float* x[kTokensMax];
    std::int32_t* y[kTokensMax];
    for (int t = 0; t < count; ++t) {
      x[t] = x_[static_cast<std::size_t>(first + t)].data();
      y[t] = y_[static_cast<std::size_t>(first + t)].data();
    }
    kernels.slice_forward({slice_.get(), hidden_, count, x, weight_.data() + first, fixed_scale_.data(),
                           slice_guard_factor(slice_.get(), hidden_, fixed_scale_.data()), y, guard_.data() + first,
                           scratch_.get()});
  }

  int hidden_, tokens_max_;
  Aligned<std::byte> slice_;
  Aligned<float> scratch_;
  std::mt19937 random_;
  std::vector<std::vector<float>> x_;
  std::vector<float> weight_, fixed_scale_;
  std::vector<std::vector<std::int32_t>> y_;
  std::vector<std::uint64_t> guard_;
};

} // namespace ductl::agent::test
