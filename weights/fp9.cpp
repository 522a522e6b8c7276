#include "weights/fp9.hpp"

#include <cmath>

namespace ductl::weights {

Fp9 fp9_round(float value) {
  const Fp9 sign = std::signbit(value) ? kFp9Sign : Fp9{0};
  if (std::isnan(value)) return static_cast<Fp9>(sign | kFp9Nan);
  if (std::fabs(value) >= 63488.0f) return static_cast<Fp9>(sign | kFp9Infinity);
  return fp9_round_finite(value);
}

} // namespace ductl::weights
