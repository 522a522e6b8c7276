#include "engine/attention/kernels/kernels.hpp"

#include "inventory/cpu_features.hpp"

namespace ductl::engine {

const Kernels& scalar_kernels() {
  static constexpr Kernels kScalar{"scalar",       dense_product_scalar, dense_transposed_scalar, rms_norm_scalar,
                                   softmax_scalar, silu_multiply_scalar, add_relu_scalar};
  return kScalar;
}

const Kernels* avx2_kernels() {
  static constexpr Kernels kAvx2{"avx2",       dense_product_avx2, dense_transposed_avx2, rms_norm_avx2,
                                 softmax_avx2, silu_multiply_avx2, add_relu_avx2};
  static const bool kThere = cpu_has_avx2();
  return kThere ? &kAvx2 : nullptr;
}

const Kernels& kernels() {
  static const Kernels& chosen = avx2_kernels() != nullptr ? *avx2_kernels() : scalar_kernels();
  return chosen;
}

} // namespace ductl::engine
