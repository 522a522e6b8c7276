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
  DUCTL_INLINE_MEMBER void step() {
    const std::byte* from = at_ < end_ ? at_ : next_ + (at_ - end_);
#pragma GCC unroll 9
    for (std::size_t line = 0; line < Decoder::kTile / kLine; ++line) prefetch_line(from + kLine * line);
    at_ += Decoder::kTile;
  }

private:
  const std::byte *at_, *end_, *next_;
};

void panel(const std::byte*& tile, const float* x, int hidden, const float* scale, Stretch& stretch, float* total) {
  for (int i = 0; i < kRows; ++i) total[i] = 0;
  const float* rows[1] = {x};
  for (int column = 0; column < hidden;) {
    __m256 acc[1][4];
    clear(acc);
    const int end = column + kBlock;
    for (; column < end; column += kTileColumns, tile += Decoder::kTile) {
      stretch.step();
      tile_fma<Decoder, 1>(tile, rows, column, acc);
    }
    end_block<1>(acc, scale[end / kBlock - 1], scale[end / kBlock - 1], total);
  }
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
  const float* rows[1] = {gate};
  for (int row = 0; row < expert.hidden; row += kRows) {
    __m256 acc[1][4];
    clear(acc);
    for (int column = 0; column < expert.channels; column += kTileColumns, tile += Decoder::kTile) {
      stretch.step();
      tile_fma<Decoder, 1>(tile, rows, column, acc);
    }
    add_fixed<1>(acc, expert.down_scale[row / kBlock] * fixed_scale, &y, row);
  }
}

} // namespace test
} // namespace ductl::agent
