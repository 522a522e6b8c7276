#include "weights/stored_format.hpp"

#include "weights/slice.hpp"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

namespace ductl::weights {

namespace {

// The first FFN matrix that is not fp8; none when all are.
Expected<std::optional<MatrixView>> other_than_fp8(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  for (int layer = 0; layer < decoder_layers(config); ++layer) {
    for (int expert = 0; expert < expert_count(config, layer); ++expert) {
      const auto weights = expert_weights(checkpoint, layer, expert);
      if (!weights) return tl::unexpected<Error>(weights.error());
      for (const MatrixView* matrix : {&weights->gate, &weights->up, &weights->down})
        if (matrix->type != DType::F8E4M3) return *matrix;
    }
  }
  return std::nullopt;
}

} // namespace

std::string_view format_name(TileFormat format) { return format == TileFormat::NineBit ? "fp9" : "e4m3"; }

std::optional<TileFormat> format_named(std::string_view name) {
  for (const TileFormat format : {TileFormat::NineBit, TileFormat::EightBit})
    if (name == format_name(format)) return format;
  return std::nullopt;
}

Expected<TileFormat> choose_format(const Checkpoint& checkpoint, std::string_view wanted) {
  assert(wanted == "auto" || format_named(wanted));
  if (wanted == format_name(TileFormat::NineBit)) return TileFormat::NineBit;
  const auto other = other_than_fp8(checkpoint);
  if (!other) return tl::unexpected<Error>(other.error());
  if (!*other) return TileFormat::EightBit;
  if (wanted == "auto") return TileFormat::NineBit;
  return fail(
      ErrorCode::kModelUnsupported,
      fmt::format("model.format = \"e4m3\" holds fp8 weights only, and {} is {}", (*other)->name, to_string((*other)->type)),
      checkpoint.folder().string(), "set model.format = \"fp9\" or \"auto\": fp9 takes BF16, F16 and F32 weights too");
}

} // namespace ductl::weights
