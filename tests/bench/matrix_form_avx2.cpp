// Over the very decoder and multiply-add loops of the product, so that only the form differs: this file includes theirs, and
// defines in its place what the library's object would define.
#include "tests/bench/matrix_form.hpp"

#include "agent/kernels/expert_avx2.cpp" // NOLINT

namespace ductl::agent {
namespace {

constexpr int kChannelsMax = 512;

// Both widths would do; a big core takes the wide one.
using Decoder = Fp9Wide;

// Runs ahead of the work along the expert's one stretch, and on into the next.
class Stretch {
public:
  Stretch(const std::byte* begin, std::size_t bytes, const std::byte* next)
      : at_(begin + kTilesAhead * Decoder::kTile), end_(begin + bytes), next_(next) {}
  DUCTL_INLINE_MEMBER const std::byte* take() {
    const std::byte* from = at_ < end_ ? at_ : next_ + (at_ - end_);
    at_ += Decoder::kTile;
    return from;
  }

private:
  const std::byte *at_, *end_, *next_;
};

// kChains stretches of neighbouring tiles from `tile` on, each with its own piece of x; their sums.
template <int kChains>
DUCTL_INLINE void tiles_sums(const std::byte* tile, int columns, const float* x, int x_step, Stretch& stretch,
                             Sums<1> (&sums)[kChains]) {
  for (int chain = 0; chain < kChains; ++chain) clear(sums[chain]);
  for (int column = 0; column < columns; column += kTileColumns) {
    const std::byte *tiles[kChains], *fetch[kChains];
    const float* from[kChains][1];
    for (int chain = 0; chain < kChains; ++chain) {
      tiles[chain] = tile + static_cast<std::size_t>((columns * chain + column) / kTileColumns) * Decoder::kTile;
      from[chain][0] = x + x_step * chain + column;
      fetch[chain] = stretch.take();
    }
    tiles_fma<Decoder, 1, kChains>(tiles, from, fetch, sums);
  }
}

template <int kChains>
void panel_blocks_of(const std::byte*& tile, const float* x, const float* scale, Stretch& stretch, float* total) {
  Sums<1> sums[kChains];
  tiles_sums<kChains>(tile, kBlock, x, kBlock, stretch, sums);
  for (int chain = 0; chain < kChains; ++chain) end_block<1>(sums[chain], scale[chain], scale[chain], total);
  tile += static_cast<std::size_t>(kChains * kBlock / kTileColumns) * Decoder::kTile;
}

void panel(const std::byte*& tile, const float* x, int hidden, const float* scale, Stretch& stretch, float* total) {
  constexpr int kChains = Decoder::kChains;
  for (int i = 0; i < kRows; ++i) total[i] = 0;
  int block = 0;
  for (; kBlock * (block + kChains) <= hidden; block += kChains)
    panel_blocks_of<kChains>(tile, x + kBlock * block, scale + block, stretch, total);
  for (; kBlock * block < hidden; ++block) panel_blocks_of<1>(tile, x + kBlock * block, scale + block, stretch, total);
}

void swiglu(float* gate, const float* up, int channels) {
  for (int c = 0; c < channels; c += 8)
    _mm256_store_ps(gate + c, _mm256_mul_ps(silu(_mm256_load_ps(gate + c)), _mm256_load_ps(up + c)));
}

} // namespace

namespace test {

std::size_t matrix_expert_bytes(int hidden, int channels) {
  return static_cast<std::size_t>(hidden / kTileColumns) * static_cast<std::size_t>(channels / kRows) * 3 * Decoder::kTile;
}

void matrix_forward(const MatrixExpert& expert, const float* x, float fixed_scale, std::int32_t* y, const std::byte* next) {
  alignas(32) float gate[kChannelsMax], up[kChannelsMax];
  Stretch stretch(expert.tiles, matrix_expert_bytes(expert.hidden, expert.channels), next);
  const std::byte* tile = expert.tiles;
  for (int row = 0; row < expert.channels; row += kRows) panel(tile, x, expert.hidden, expert.gate_scale, stretch, gate + row);
  for (int row = 0; row < expert.channels; row += kRows) panel(tile, x, expert.hidden, expert.up_scale, stretch, up + row);
  swiglu(gate, up, expert.channels);
  constexpr int kChains = Decoder::kChains; // row panels side by side
  for (int row = 0; row < expert.hidden; row += kChains * kRows) {
    Sums<1> sums[kChains];
    tiles_sums<kChains>(tile, expert.channels, gate, 0, stretch, sums);
    tile += static_cast<std::size_t>(kChains * expert.channels / kTileColumns) * Decoder::kTile;
    for (int chain = 0; chain < kChains; ++chain) {
      const int at = row + kRows * chain;
      add_fixed<1>(sums[chain], expert.down_scale[at / kBlock] * fixed_scale, &y, at);
    }
  }
}

} // namespace test
} // namespace ductl::agent
