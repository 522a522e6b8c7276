#include "weights/pack.hpp"

#include "weights/e4m3.hpp"
#include "weights/float_types.hpp"
#include "weights/quantize.hpp"
#include "weights/tile.hpp"

#include <cassert>
#include <cstring>

namespace ductl::weights {

namespace {

std::size_t element_bytes(DType type) { return type == DType::F8E4M3 ? 1 : type == DType::F32 ? 4 : 2; }

int blocks_of(int size) { return (size + kScaleBlock - 1) / kScaleBlock; }

const std::byte* element_at(const MatrixView& matrix, int row, int column) {
  return matrix.data + element_bytes(matrix.type) * (static_cast<std::size_t>(row) * static_cast<std::size_t>(matrix.columns) +
                                                     static_cast<std::size_t>(column));
}

// 16 neighbouring elements of a row -> codes. `inverse` = 1 / scale, a power of two; not used for fp8.
// The loops have no branch and a fixed count: they vectorise.
void encode_fp8(const std::byte* source, Fp9* codes) {
  for (int i = 0; i < kTileColumns; ++i) codes[i] = kE4m3ToFp9[std::to_integer<std::size_t>(source[i])];
}

void encode_bf16(const std::byte* source, float inverse, Fp9* codes) {
  std::uint16_t words[kTileColumns];
  std::memcpy(words, source, sizeof words);
  for (int i = 0; i < kTileColumns; ++i) codes[i] = fp9_round_finite(bf16_to_float(words[i]) * inverse);
}

void encode_f16(const std::byte* source, float inverse, Fp9* codes) {
  std::uint16_t words[kTileColumns];
  std::memcpy(words, source, sizeof words);
  for (int i = 0; i < kTileColumns; ++i) codes[i] = fp9_round_finite(f16_to_float_finite(words[i]) * inverse);
}

void encode_f32(const std::byte* source, float inverse, Fp9* codes) {
  float values[kTileColumns];
  std::memcpy(values, source, sizeof values);
  for (int i = 0; i < kTileColumns; ++i) codes[i] = fp9_round_finite(values[i] * inverse);
}

void encode(DType type, const std::byte* source, float inverse, Fp9* codes) {
  switch (type) {
  case DType::F8E4M3: encode_fp8(source, codes); break;
  case DType::Bf16: encode_bf16(source, inverse, codes); break;
  case DType::F16: encode_f16(source, inverse, codes); break;
  default: encode_f32(source, inverse, codes); break;
  }
}

// fp8 sources are not read before packing, so their NaNs are found here. Quantised ones were checked with their scales.
bool has_nan(const TileCodes& tile, int row_begin, int row_end) {
  unsigned bad = 0;
  for (int r = row_begin; r < row_end; ++r)
    for (int i = 0; i < kTileColumns; ++i) bad |= static_cast<unsigned>((tile.code[r][i] & kFp9Infinity) == kFp9Infinity);
  return bad != 0;
}

// Rows [row, row + rows) x columns [column, column + 16) of `matrix` into rows [tile_row, ...) of the tile. One scale holds
// for all of them: neither 16 nor 32 rows, nor 16 columns, ever straddle a block of 128.
Expected<void> encode_rows(const MatrixView& matrix, float scale, int row, int column, int rows, TileCodes& tile, int tile_row) {
  const float inverse = 1.0f / scale;
  for (int r = 0; r < rows; ++r) encode(matrix.type, element_at(matrix, row + r, column), inverse, tile.code[tile_row + r]);
  if (matrix.type != DType::F8E4M3 || !has_nan(tile, tile_row, tile_row + rows)) return {};
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < kTileColumns; ++i)
      if (!fp9_finite(tile.code[tile_row + r][i])) return tl::unexpected<Error>(not_finite_error(matrix, row + r, column + i));
  return {};
}

// The same for e4m3, whose codes are the checkpoint's own.
Expected<void> encode_rows(const MatrixView& matrix, float, int row, int column, int rows, TileE4m3& tile, int tile_row) {
  bool bad = false;
  for (int r = 0; r < rows; ++r) {
    std::memcpy(tile.code[tile_row + r], element_at(matrix, row + r, column), kTileColumns);
    for (int i = 0; i < kTileColumns; ++i) bad |= e4m3_is_nan(tile.code[tile_row + r][i]);
  }
  if (!bad) return {};
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < kTileColumns; ++i)
      if (e4m3_is_nan(tile.code[tile_row + r][i])) return tl::unexpected<Error>(not_finite_error(matrix, row + r, column + i));
  return {};
}

void copy_scales(const PreparedExpert& expert, const SliceLayout& layout, int index, std::byte* out) {
  const int blocks = layout.scale_blocks, channel_block = index * kSliceChannels / kScaleBlock;
  const int channel_blocks = blocks_of(expert.weights.down.columns);
  const std::size_t row_bytes = sizeof(float) * static_cast<std::size_t>(blocks);
  const std::size_t first = static_cast<std::size_t>(channel_block) * static_cast<std::size_t>(blocks);
  std::memset(out, 0, layout.panel);
  std::memcpy(out + layout.gate_scale, expert.gate_scale.data() + first, row_bytes);
  std::memcpy(out + layout.up_scale, expert.up_scale.data() + first, row_bytes);
  for (int block = 0; block < blocks; ++block)
    std::memcpy(out + layout.down_scale + sizeof(float) * static_cast<std::size_t>(block),
                &expert.down_scale[static_cast<std::size_t>(block * channel_blocks + channel_block)], sizeof(float));
}

template <class Tile>
Expected<void> pack_panel(const PreparedExpert& expert, const SliceLayout& layout, int index, std::byte* out) {
  const int channel = index * kSliceChannels;
  const std::size_t first = static_cast<std::size_t>(channel / kScaleBlock) * static_cast<std::size_t>(layout.scale_blocks);
  Tile tile;
  for (int column = 0; column < layout.hidden; column += kTileColumns) {
    const std::size_t block = first + static_cast<std::size_t>(column / kScaleBlock);
    if (auto ok = encode_rows(expert.weights.gate, expert.gate_scale[block], channel, column, kSliceChannels, tile, 0); !ok)
      return ok;
    if (auto ok = encode_rows(expert.weights.up, expert.up_scale[block], channel, column, kSliceChannels, tile, kSliceChannels);
        !ok)
      return ok;
    store_tile(tile, out + layout.panel_tile(column / kTileColumns));
  }
  return {};
}

template <class Tile>
Expected<void> pack_down(const PreparedExpert& expert, const SliceLayout& layout, int index, std::byte* out) {
  const int channel = index * kSliceChannels, channel_blocks = blocks_of(expert.weights.down.columns);
  Tile tile;
  for (int row = 0; row < layout.hidden; row += kTileRows) {
    const auto block = static_cast<std::size_t>(row / kScaleBlock * channel_blocks + channel / kScaleBlock);
    if (auto ok = encode_rows(expert.weights.down, expert.down_scale[block], row, channel, kTileRows, tile, 0); !ok) return ok;
    store_tile(tile, out + layout.down_tile(row / kTileRows));
  }
  return {};
}

template <class Tile>
Expected<void> pack_tiles(const PreparedExpert& expert, const SliceLayout& layout, int index, std::byte* out) {
  if (auto ok = pack_panel<Tile>(expert, layout, index, out); !ok) return ok;
  return pack_down<Tile>(expert, layout, index, out);
}

} // namespace

Expected<PreparedExpert> prepare_expert(const ExpertWeights& weights, TileFormat format) {
  assert(format == TileFormat::NineBit ||
         (weights.gate.type == DType::F8E4M3 && weights.up.type == DType::F8E4M3 && weights.down.type == DType::F8E4M3));
  PreparedExpert expert{weights, format, {}, {}, {}};
  auto gate = block_scales(weights.gate);
  if (!gate) return tl::unexpected<Error>(gate.error());
  auto up = block_scales(weights.up);
  if (!up) return tl::unexpected<Error>(up.error());
  auto down = block_scales(weights.down);
  if (!down) return tl::unexpected<Error>(down.error());
  expert.gate_scale = std::move(*gate);
  expert.up_scale = std::move(*up);
  expert.down_scale = std::move(*down);
  return expert;
}

Expected<void> pack_slice(const PreparedExpert& expert, int index, std::span<std::byte> out) {
  const SliceLayout layout = slice_layout(expert.weights.gate.columns, expert.format);
  assert(out.size() == layout.bytes);
  assert(index >= 0 && (index + 1) * kSliceChannels <= expert.weights.gate.rows);
  copy_scales(expert, layout, index, out.data());
  return expert.format == TileFormat::NineBit ? pack_tiles<TileCodes>(expert, layout, index, out.data())
                                              : pack_tiles<TileE4m3>(expert, layout, index, out.data());
}

} // namespace ductl::weights
