// What is done to vectors between the matrix products: norm, softmax, gated activation. As in dense.hpp, one fixed order a
// result, the same bits from both implementations. Sums run in 8 lanes by index, then ((0+4)+(2+6)) + ((1+5)+(3+7)).
#pragma once

#include <cstdint>

namespace ductl::engine {

// e^x for x <= 0, within 2 ulp; 0 below -87.33; NaN stays NaN. No libm: the same bits on every machine.
[[nodiscard]] float exp_nonpositive(float x);

// y = x / sqrt(mean(x^2) + eps) * weight; y may be x.
void rms_norm_scalar(const float* x, const float* weight, std::int32_t size, float eps, float* y);
void rms_norm_avx2(const float* x, const float* weight, std::int32_t size, float eps, float* y);

// x = e^(scale * x - max(scale * x)) in place; returns 1 / sum. size >= 1.
[[nodiscard]] float softmax_scalar(float* x, std::int32_t size, float scale);
[[nodiscard]] float softmax_avx2(float* x, std::int32_t size, float scale);

// gate = silu(gate) * up, in place.
void silu_multiply_scalar(float* gate, const float* up, std::int32_t size);
void silu_multiply_avx2(float* gate, const float* up, std::int32_t size);

// sum[i] = fma(weight, max(x[i], 0), sum[i]).
void add_relu_scalar(const float* x, float weight, std::int32_t size, float* sum);
void add_relu_avx2(const float* x, float weight, std::int32_t size, float* sum);

} // namespace ductl::engine
