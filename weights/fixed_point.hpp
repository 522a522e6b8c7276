// Sums across slices, ducks and threads are int32 fixed point: integer adds are associative, so every grouping gives the
// same bits. This is the arithmetic of its scale; why these constants: docs/slices.md, "Fixed point".
#pragma once

#include "weights/slice.hpp"

#include <span>
#include <vector>

namespace ductl::weights {

// Rung r of the ladder carries y at 2^(exponent - 8 r): a round whose guard total reaches kGuardLimit is repeated one rung up.
inline constexpr int kRungs = 3, kRungBits = 8;
inline constexpr std::uint64_t kGuardLimit = 1ull << 31;
inline constexpr std::uint64_t kGuardSaturated = 1ull << 62; // also: some h was not finite, no rung helps

// Sum of two guards, each at most kGuardSaturated; saturates there. Associative.
[[nodiscard]] constexpr std::uint64_t add_guards(std::uint64_t a, std::uint64_t b) {
  return a + b < kGuardSaturated ? a + b : kGuardSaturated;
}

// 2^(exponent - 8 rung) and its inverse, exactly.
[[nodiscard]] float fixed_scale(int exponent, int rung);
[[nodiscard]] float fixed_step(int exponent, int rung);

// Sums of squares of a slice's weights (scales applied), in a fixed order: equal weights give equal bits in either format.
struct SliceNorms {
  double gate = 0, up = 0;
  std::vector<double> down; // one per 128 rows
};
void slice_norms(const std::byte* slice, int hidden, SliceNorms& out, TileFormat format = TileFormat::NineBit);

// The same of a whole expert: its slices' norms, added in slice order.
struct ExpertNorms {
  int channels = 0;
  double gate = 0, up = 0;
  std::vector<double> down;
  void add(const SliceNorms& slice);
};

// What a layer's exponents depend on beside the weights.
struct LayerActivation {
  double input_rms = 1;      // of the FFN's input: the rms of the weights of the norm before it
  int experts_per_token = 1; // routed ones; 1 in a dense layer
  double routed_weight = 1;  // sum of a token's router weights, as it is on average
};

// The rms that y is expected to have in each 128-row block, and the exponents that follow from it.
// `shared` indexes experts, or is -1.
[[nodiscard]] std::vector<double> expected_rms(int hidden, std::span<const ExpertNorms> experts, int shared,
                                               const LayerActivation& activation);
// Slices that a token's sum consists of decide how much rounding adds up.
[[nodiscard]] std::int16_t fixed_exponent(double rms, int slices_per_token);

} // namespace ductl::weights
