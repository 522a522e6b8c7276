// A slice with its activations, ready to run, for kernel tests and the benchmark.
#pragma once

#include "agent/bench/slice_pool.hpp"
#include "agent/kernels/select.hpp"
#include "weights/fixed_point.hpp"
#include "weights/slice.hpp"
#include "weights/tile.hpp"

#include <algorithm>
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

using weights::TileFormat;

// `count` slices of one expert.
class Job {
public:
  Job(int hidden, int tokens_max, unsigned seed, int count = 1, TileFormat format = TileFormat::NineBit)
      : hidden_(hidden),
        tokens_max_(tokens_max),
        count_(count),
        format_(format),
        bytes_(weights::slice_layout(hidden, format).bytes),
        slice_(aligned<std::byte>(bytes_ * static_cast<std::size_t>(count))),
        scratch_(aligned<float>(kernel_scratch_floats(tokens_max))),
        random_(seed) {
    for (int i = 0; i < count; ++i) bench::fill_random_slice(weights::slice_layout(hidden, format), slice(i), random_);
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

  [[nodiscard]] std::byte* slice(int number) const { return slice_.get() + bytes_ * static_cast<std::size_t>(number); }

  void clear() {
    y_.assign(static_cast<std::size_t>(tokens_max_), std::vector<std::int32_t>(static_cast<std::size_t>(hidden_), 0));
    guard_.assign(static_cast<std::size_t>(tokens_max_), 0);
  }

  // Tokens [first, first + count) of this job, `group` slices a call.
  void run(const ExpertKernels& kernels, int first, int count, int group = kCallSlicesMax) {
    std::vector<const float*> x;
    std::vector<std::int32_t*> y;
    for (int t = first; t < first + count; ++t) {
      x.push_back(x_[static_cast<std::size_t>(t)].data());
      y.push_back(y_[static_cast<std::size_t>(t)].data());
    }
    for (int begin = 0; begin < count_; begin += group) {
      const std::byte* slices[kCallSlicesMax];
      float guard_factor[kCallSlicesMax];
      const int some = std::min(group, count_ - begin);
      for (int i = 0; i < some; ++i) {
        slices[i] = slice(begin + i);
        guard_factor[i] = slice_guard_factor(slices[i], hidden_, format_, fixed_scale_.data());
      }
      kernels.forward({.format = format_,
                       .slices = slices,
                       .count = some,
                       .hidden = hidden_,
                       .tokens = count,
                       .x = x.data(),
                       .weight = weight_.data() + first,
                       .fixed_scale = fixed_scale_.data(),
                       .guard_factor = guard_factor,
                       .y = y.data(),
                       .guard = guard_.data() + first,
                       .scratch = scratch_.get(),
                       .next = begin + some < count_ ? slice(begin + some) : nullptr});
    }
  }

  int hidden_, tokens_max_, count_;
  TileFormat format_;
  std::size_t bytes_;
  Aligned<std::byte> slice_;
  Aligned<float> scratch_;
  std::mt19937 random_;
  std::vector<std::vector<float>> x_;
  std::vector<float> weight_, fixed_scale_;
  std::vector<std::vector<std::int32_t>> y_;
  std::vector<std::uint64_t> guard_;
};

} // namespace ductl::agent::test
