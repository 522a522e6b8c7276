#include "weights/slice.hpp"

#include "weights/limits.hpp"

#include <fmt/format.h>

namespace ductl::weights {

namespace {

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

Expected<void> check_channels(int channels, const char* what) {
  if (channels > 0 && channels % kSliceChannels == 0 && channels / kSliceChannels <= 0xFFFF) return {};
  return fail(ErrorCode::kModelUnsupported,
              fmt::format("{} is {}, but it must be a multiple of {} between {} and {}: a slice is {} channels wide", what,
                          channels, kSliceChannels, kSliceChannels, kSliceChannels * 0xFFFF, kSliceChannels),
              "config.json", "this model cannot be cut into slices; choose another one");
}

// What the control plane and the wire between host and ducks can carry.
Expected<void> check_limits(const ModelConfig& config) {
  const auto beyond = [](const char* what, int value, int limit) {
    return fail(ErrorCode::kModelUnsupported, fmt::format("{} is {}, but ducks take at most {}", what, value, limit),
                "config.json", "choose another model");
  };
  if (config.hidden > kHiddenMax) return beyond("hidden_size", config.hidden, kHiddenMax);
  if (decoder_layers(config) > kLayersMax) return beyond("num_hidden_layers", decoder_layers(config), kLayersMax);
  const int shared = config.moe.shared_experts > 0 ? 1 : 0;
  if (config.moe.experts > 0 && config.moe.experts_per_token > kChoicesMax - shared)
    return beyond("num_experts_per_tok", config.moe.experts_per_token, kChoicesMax - shared);
  return {};
}

} // namespace

SliceLayout slice_layout(int hidden, TileFormat format) {
  SliceLayout layout;
  layout.hidden = hidden;
  layout.format = format;
  layout.scale_blocks = (hidden + kScaleBlock - 1) / kScaleBlock;
  const std::size_t scale_bytes = sizeof(float) * static_cast<std::size_t>(layout.scale_blocks);
  layout.gate_scale = 0;
  layout.up_scale = scale_bytes;
  layout.down_scale = 2 * scale_bytes;
  layout.panel = round_up(3 * scale_bytes, kSliceAlignment);
  layout.down = layout.panel_tile(hidden / kTileColumns);
  layout.bytes = layout.down_tile(hidden / kTileRows);
  return layout;
}

bool is_moe_layer(const ModelConfig& config, int layer) { return config.moe.experts > 0 && layer >= config.moe.first_moe_layer; }

int expert_count(const ModelConfig& config, int layer) {
  if (!is_moe_layer(config, layer)) return 1;
  return config.moe.experts + (config.moe.shared_experts > 0 ? 1 : 0);
}

int shared_expert(const ModelConfig& config, int layer) {
  return is_moe_layer(config, layer) && config.moe.shared_experts > 0 ? config.moe.experts : -1;
}

int expert_channels(const ModelConfig& config, int layer, int expert) {
  if (!is_moe_layer(config, layer)) return config.intermediate;
  return expert == shared_expert(config, layer) ? config.moe.shared_experts * config.moe.intermediate : config.moe.intermediate;
}

int expert_slices(const ModelConfig& config, int layer, int expert) {
  return expert_channels(config, layer, expert) / kSliceChannels;
}

std::uint64_t slice_count(const ModelConfig& config) {
  std::uint64_t count = 0;
  for (int layer = 0; layer < decoder_layers(config); ++layer) {
    if (!is_moe_layer(config, layer)) {
      count += static_cast<std::uint64_t>(expert_slices(config, layer, 0));
      continue;
    }
    count += static_cast<std::uint64_t>(config.moe.experts) * static_cast<std::uint64_t>(expert_slices(config, layer, 0));
    if (const int shared = shared_expert(config, layer); shared >= 0)
      count += static_cast<std::uint64_t>(expert_slices(config, layer, shared));
  }
  return count;
}

Expected<void> check_sliceable(const ModelConfig& config) {
  if (config.hidden <= 0 || config.hidden % 32 != 0)
    return fail(ErrorCode::kModelUnsupported,
                fmt::format("hidden_size is {}, but it must be a multiple of 32: a tile is 32 rows high", config.hidden),
                "config.json", "this model cannot be cut into slices; choose another one");
  if (auto ok = check_limits(config); !ok) return ok;
  if (config.layers <= 0 || config.moe.experts > 0xFFFE)
    return fail(
        ErrorCode::kModelUnsupported,
        fmt::format("{} layers and {} experts a layer are beyond what slices can number", config.layers, config.moe.experts),
        "config.json", "choose another model");
  const bool has_dense = config.moe.experts == 0 || config.moe.first_moe_layer > 0;
  const bool has_moe = config.moe.experts > 0 && config.moe.first_moe_layer < decoder_layers(config);
  if (has_dense)
    if (auto ok = check_channels(config.intermediate, "intermediate_size"); !ok) return ok;
  if (has_moe) {
    if (auto ok = check_channels(config.moe.intermediate, "moe_intermediate_size"); !ok) return ok;
    if (config.moe.shared_experts > 0) {
      const auto width = static_cast<std::int64_t>(config.moe.shared_experts) * config.moe.intermediate;
      if (width > kSliceChannels * 0xFFFF) return check_channels(-1, "n_shared_experts * moe_intermediate_size");
    }
  }
  return {};
}

} // namespace ductl::weights
