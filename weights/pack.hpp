// From checkpoint matrices to stored slices (docs/slices.md).
#pragma once

#include "weights/checkpoint.hpp"
#include "weights/slice.hpp"

namespace ductl::weights {

// Packs one slice into `out` (slice_layout(hidden, format).bytes, padding zeroed). fp8 sources are re-coded exactly and keep
// their block scales; bf16, f16 and f32 sources are quantised to fp9 with a power-of-two scale per 128x128 block of the whole
// matrix. NaN or infinity: kWeightNotFinite naming tensor and index. Pure; any thread.
// `expert` must hold the block scales of quantised sources: make it once per expert with prepare_expert(). The format must be
// one that choose_format() gives: e4m3 for fp8 sources only.
struct PreparedExpert {
  ExpertWeights weights;
  TileFormat format = TileFormat::NineBit;
  std::vector<float> gate_scale, up_scale, down_scale; // [ceil(rows/128) * ceil(columns/128)], row-major
};
[[nodiscard]] Expected<PreparedExpert> prepare_expert(const ExpertWeights& weights, TileFormat format = TileFormat::NineBit);
[[nodiscard]] Expected<void> pack_slice(const PreparedExpert& expert, int index, std::span<std::byte> out);

} // namespace ductl::weights
