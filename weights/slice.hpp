// The slice: 16 neighbouring channels of the intermediate dimension of one FFN ("expert") of one layer. It is the
// atom of packing, hashing, sending, caching, placement and compute. Stored form: docs/slices.md.
//
// Every FFN is an expert: in a dense layer expert 0 is the whole MLP; in a MoE layer experts 0..E-1 are the routed
// ones and expert E is the shared one (if any).
#pragma once

#include "weights/model_config.hpp"
#include "weights/tile.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ductl::weights {

inline constexpr int kSliceChannels = 16;
inline constexpr int kScaleBlock = 128; // rows and columns that share a scale
inline constexpr std::size_t kSliceAlignment = 64;

struct SliceId {
  std::uint16_t layer = 0, expert = 0, index = 0;
  auto operator<=>(const SliceId&) const = default;
};

// Where the parts of a stored slice lie. All offsets from the slice's first byte, all multiples of 64.
struct SliceLayout {
  int hidden = 0;
  TileFormat format = TileFormat::NineBit;
  int scale_blocks = 0;       // ceil(hidden / 128)
  std::size_t gate_scale = 0; // float[scale_blocks]
  std::size_t up_scale = 0;   // float[scale_blocks] (directly behind)
  std::size_t down_scale = 0; // float[scale_blocks] (directly behind)
  std::size_t panel = 0;      // hidden/16 tiles; tile rows 0-15 gate, 16-31 up
  std::size_t down = 0;       // hidden/32 tiles; rows 32p..32p+31 x the 16 channels
  std::size_t bytes = 0;

  [[nodiscard]] std::size_t panel_tile(int number) const { return panel + static_cast<std::size_t>(number) * tile_bytes(format); }
  [[nodiscard]] std::size_t down_tile(int number) const { return down + static_cast<std::size_t>(number) * tile_bytes(format); }
};
[[nodiscard]] SliceLayout slice_layout(int hidden, TileFormat format = TileFormat::NineBit); // hidden a multiple of 32

// Decoder layers: the model's own and, behind them, those that predict further tokens (MTP), which are built the same way.
[[nodiscard]] constexpr int decoder_layers(const ModelConfig& config) { return config.layers + config.mtp_layers; }

// The FFNs of a model, as slices count them.
[[nodiscard]] bool is_moe_layer(const ModelConfig& config, int layer);
[[nodiscard]] int expert_count(const ModelConfig& config, int layer);                // routed + shared, 1 when dense
[[nodiscard]] int shared_expert(const ModelConfig& config, int layer);               // its number, -1 if none
[[nodiscard]] int expert_channels(const ModelConfig& config, int layer, int expert); // its intermediate size
[[nodiscard]] int expert_slices(const ModelConfig& config, int layer, int expert);
[[nodiscard]] std::uint64_t slice_count(const ModelConfig& config); // of all decoder layers
// "hidden must be a multiple of 32 ..." when the model cannot be sliced.
[[nodiscard]] Expected<void> check_sliceable(const ModelConfig& config);

} // namespace ductl::weights
