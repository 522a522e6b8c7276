// Slices against one gate, up and down matrix per expert: the same weights, experts in random order, one core, cold. Prints
// {"slices_over_matrices": ...}: the time of the matrices over that of the slices. matrix_bench [--check]
#include "agent/bench/machine.hpp"
#include "agent/bench/slice_pool.hpp"
#include "agent/kernels/expert.hpp"
#include "inventory/cpu_features.hpp"
#include "tests/bench/matrix_form.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

namespace {

using namespace ductl;
using agent::test::MatrixExpert;
using weights::TileFormat;

constexpr int kHidden = 7168, kSlices = 4, kSamples = 15, kExpertsAPass = 24;
constexpr int kChannels = kSlices * weights::kSliceChannels;
constexpr float kFixedScale = 256;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One expert's slices as its three matrices. The tiles' rows and columns move; no weight changes.
void to_matrices(const std::byte* const* slices, const weights::SliceLayout& layout, std::byte* out) {
  const auto code_of = [&](int part, int row, int column) { // part 0 gate, 1 up: row = channel; part 2 down: column = channel
    const int channel = part == 2 ? column : row;
    const std::byte* slice = slices[channel / weights::kSliceChannels];
    const int within = channel % weights::kSliceChannels;
    if (part == 2) return weights::tile_code(slice + layout.down_tile(row / 32), row % 32, within);
    return weights::tile_code(slice + layout.panel_tile(column / 16), within + 16 * part, column % 16);
  };
  for (int part = 0; part < 3; ++part) {
    const int rows = part == 2 ? layout.hidden : kChannels, columns = part == 2 ? kChannels : layout.hidden;
    for (int row = 0; row < rows; row += 32)
      for (int column = 0; column < columns; column += 16) {
        weights::TileCodes tile;
        for (int r = 0; r < 32; ++r)
          for (int c = 0; c < 16; ++c) tile.code[r][c] = code_of(part, row + r, column + c);
        weights::store_tile(tile, out);
        out += weights::tile_bytes(TileFormat::NineBit);
      }
  }
}

struct Tokens {
  std::vector<float> x = std::vector<float>(kHidden), scratch = std::vector<float>(agent::kernel_scratch_floats(1) + 16);
  std::vector<std::int32_t> y = std::vector<std::int32_t>(kHidden);
};

void slices_forward(const std::byte* const* slices, Tokens& tokens, const std::byte* next) {
  static const std::vector<float> scale(kHidden / 128, kFixedScale);
  static const float weight = 1, guard_factor[kSlices] = {1, 1, 1, 1};
  std::uint64_t guard = 0;
  const float* x = tokens.x.data();
  std::int32_t* y = tokens.y.data();
  void* place = tokens.scratch.data();
  std::size_t room = tokens.scratch.size() * sizeof(float);
  agent::avx2_wide_kernels().forward({.format = TileFormat::NineBit,
                                      .slices = slices,
                                      .count = kSlices,
                                      .hidden = kHidden,
                                      .tokens = 1,
                                      .x = &x,
                                      .weight = &weight,
                                      .fixed_scale = scale.data(),
                                      .guard_factor = guard_factor,
                                      .y = &y,
                                      .guard = &guard,
                                      .scratch = static_cast<float*>(std::align(64, room - 60, place, room)),
                                      .next = next});
}

struct Forms {
  agent::bench::SlicePool slices;
  std::vector<std::byte> memory; // matrices of every expert, 64-byte aligned from `first` on
  std::byte* first = nullptr;
  std::size_t expert_bytes = 0, experts = 0;
  std::vector<std::vector<const std::byte*>> of; // [expert][slice]

  [[nodiscard]] MatrixExpert matrices(std::size_t expert) const {
    const auto* scales = reinterpret_cast<const float*>(of[expert][0]);
    return {kHidden, kChannels, first + expert * expert_bytes, scales, scales + kHidden / 128, scales + 2 * (kHidden / 128)};
  }
};

Expected<Forms> make_forms(std::size_t set_bytes) {
  auto pool = agent::bench::SlicePool::make(kHidden, TileFormat::NineBit, set_bytes);
  if (!pool) return tl::unexpected(pool.error());
  Forms forms{std::move(*pool), {}, nullptr, agent::test::matrix_expert_bytes(kHidden, kChannels), 0, {}};
  forms.experts = forms.slices.size() / kSlices;
  forms.memory.resize(forms.experts * forms.expert_bytes + (64 << 10));
  void* place = forms.memory.data();
  std::size_t room = forms.memory.size();
  forms.first = static_cast<std::byte*>(std::align(64, room - 64, place, room));
  for (std::size_t e = 0; e < forms.experts; ++e) {
    forms.of.emplace_back();
    for (std::size_t s = 0; s < kSlices; ++s) forms.of.back().push_back(forms.slices.slice(e * kSlices + s));
  }
  to_matrices(forms.of[0].data(), forms.slices.layout(), forms.first); // all slices of the pool are alike, so all experts are
  for (std::size_t e = 1; e < forms.experts; ++e)
    std::memcpy(forms.first + e * forms.expert_bytes, forms.first, forms.expert_bytes);
  return forms;
}

// The sums of both forms differ by little more than the rounding of four slices instead of one.
int check() {
  const auto forms = make_forms((kSlices + 1) * weights::slice_layout(kHidden).bytes);
  if (!forms) return 1;
  Tokens slices, matrices;
  for (std::size_t i = 0; i < slices.x.size(); ++i)
    slices.x[i] = matrices.x[i] = 0.001f * static_cast<float>(static_cast<int>(i * 7919 % 2001) - 1000);
  slices_forward(forms->of[0].data(), slices, forms->of[0][0]);
  agent::test::matrix_forward(forms->matrices(0), matrices.x.data(), kFixedScale, matrices.y.data(), forms->first);
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < slices.y.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(slices.y[i]) - matrices.y[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(slices.y[i])));
  }
  std::printf("largest sum %.0f, largest difference %.0f\n", largest, worst);
  return largest > 1000 && worst <= 4 + 1e-5 * largest ? 0 : 1;
}

double ratio(const Forms& forms) {
  std::vector<std::size_t> order(forms.experts);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(3));
  Tokens tokens;
  std::fill(tokens.x.begin(), tokens.x.end(), 0.5f);
  std::vector<double> ratios;
  std::size_t at = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    double seconds[2] = {};
    for (int form = 0; form < 2; ++form) { // other experts each time: cold in both
      const double start = agent::bench::thread_seconds();
      for (int i = 0; i < kExpertsAPass; ++i, ++at) {
        const std::size_t e = order[at % order.size()], next = order[(at + 1) % order.size()];
        if (form == 0)
          slices_forward(forms.of[e].data(), tokens, forms.of[next][0]);
        else
          agent::test::matrix_forward(forms.matrices(e), tokens.x.data(), kFixedScale, tokens.y.data(),
                                      forms.matrices(next).tiles);
      }
      seconds[form] = agent::bench::thread_seconds() - start;
    }
    ratios.push_back(seconds[1] / seconds[0]);
  }
  return median(ratios);
}

} // namespace

int main(int argc, char** argv) {
  if (!cpu_has_avx2()) {
    std::fputs("this CPU has no AVX2\n", stderr);
    return argc > 1 ? 0 : 1;
  }
  if (argc > 1 && std::strcmp(argv[1], "--check") == 0) return check();
  const auto forms = make_forms(std::max<std::size_t>(512u << 20, 3 * agent::bench::last_level_cache_bytes()));
  if (!forms) {
    std::fputs(forms.error().text().c_str(), stderr);
    return 1;
  }
  std::printf("%s\n",
              nlohmann::ordered_json{{"cpu", agent::bench::cpu_name()}, {"slices_over_matrices", ratio(*forms)}}.dump(2).c_str());
}
