// The kernels of this machine, chosen once at start.
#pragma once

#include "engine/attention/kernels/dense.hpp"
#include "engine/attention/kernels/elementwise.hpp"

namespace ductl::engine {

struct Kernels {
  const char* name;
  void (*product)(const DenseProduct& job);
  void (*transposed)(const DenseTransposed& job);
  void (*rms_norm)(const float* x, const float* weight, std::int32_t size, float eps, float* y);
  float (*softmax)(float* x, std::int32_t size, float scale);
  void (*silu_multiply)(float* gate, const float* up, std::int32_t size);
  void (*add_relu)(const float* x, float weight, std::int32_t size, float* sum);
};

[[nodiscard]] const Kernels& scalar_kernels();
[[nodiscard]] const Kernels* avx2_kernels(); // null where the processor lacks AVX2, FMA or F16C
[[nodiscard]] const Kernels& kernels();      // the best of them

} // namespace ductl::engine
