// Every kernel by shape and tokens, out of the caches, as Google Benchmark's rows: kernel_rows --benchmark_filter=fp9
#include "agent/bench/slice_pool.hpp"
#include "agent/kernels/select.hpp"
#include "engine/attention/kernels/kernels.hpp"

#include <benchmark/benchmark.h>
#include <memory>

namespace {

using namespace ductl;
using weights::TileFormat;

constexpr int kHidden[] = {2048, 4096, 7168}, kTokens[] = {1, 2, 3, 8, 32, 128};

// Activations and sums of some tokens; 64-byte aligned scratch.
struct Tokens {
  Tokens(int hidden, int count)
      : width(static_cast<std::size_t>(hidden) + 16),
        x(width * static_cast<std::size_t>(count), 0.5f),
        y(x.size()),
        scratch(agent::kernel_scratch_floats(count) + 16),
        scale(static_cast<std::size_t>(hidden / 128 + 1), 256.0f),
        weight(static_cast<std::size_t>(count), 1.0f),
        guard(static_cast<std::size_t>(count)) {
    for (int t = 0; t < count; ++t) {
      x_rows.push_back(x.data() + width * static_cast<std::size_t>(t));
      y_rows.push_back(y.data() + width * static_cast<std::size_t>(t));
    }
  }
  float* aligned_scratch() {
    void* place = scratch.data();
    std::size_t room = scratch.size() * sizeof(float);
    return static_cast<float*>(std::align(64, room - 60, place, room));
  }

  std::size_t width;
  std::vector<float> x;
  std::vector<std::int32_t> y;
  std::vector<float> scratch, scale, weight;
  std::vector<std::uint64_t> guard;
  std::vector<const float*> x_rows;
  std::vector<std::int32_t*> y_rows;
};

void run_slice(benchmark::State& state, const agent::ExpertKernels& kernels, TileFormat format, int hidden, int count) {
  auto pool = agent::bench::SlicePool::make(hidden, format, 1);
  if (!pool) return state.SkipWithError("no memory");
  Tokens tokens(hidden, count);
  const std::byte* slice = pool->slice(0);
  const float guard_factor = 1;
  for ([[maybe_unused]] auto turn : state)
    kernels.forward({.format = format,
                     .slices = &slice,
                     .count = 1,
                     .hidden = hidden,
                     .tokens = count,
                     .x = tokens.x_rows.data(),
                     .weight = tokens.weight.data(),
                     .fixed_scale = tokens.scale.data(),
                     .guard_factor = &guard_factor,
                     .y = tokens.y_rows.data(),
                     .guard = tokens.guard.data(),
                     .scratch = tokens.aligned_scratch(),
                     .next = slice});
  const double weights = 48.0 * hidden;
  state.counters["weights/s"] = benchmark::Counter(weights, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["flop/s"] = benchmark::Counter(2 * weights * count, benchmark::Counter::kIsIterationInvariantRate);
}

void run_dense(benchmark::State& state, engine::DenseType type, int element_bytes, int columns, int count) {
  constexpr int kRows = 48;
  const auto wide = static_cast<std::size_t>(columns);
  const std::vector<std::uint8_t> data(kRows * wide * static_cast<std::size_t>(element_bytes), 0x31);
  const std::vector<float> scale(wide / 128 + 1, 0.01f), x(wide * static_cast<std::size_t>(count), 0.5f);
  std::vector<float> y(kRows * static_cast<std::size_t>(count));
  engine::DenseMatrix matrix;
  matrix.data = data.data();
  matrix.scale = reinterpret_cast<const std::uint8_t*>(scale.data());
  matrix.type = type;
  matrix.rows = kRows;
  matrix.columns = columns;
  for ([[maybe_unused]] auto turn : state)
    engine::kernels().product({&matrix, 0, kRows, count, x.data(), columns, y.data(), kRows});
  const double weights = double{kRows} * columns;
  state.counters["weights/s"] = benchmark::Counter(weights, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["flop/s"] = benchmark::Counter(2 * weights * count, benchmark::Counter::kIsIterationInvariantRate);
}

void add_rows() {
  for (const agent::ExpertKernels* kernels : agent::all_kernels())
    for (const TileFormat format : {TileFormat::NineBit, TileFormat::EightBit})
      for (const int hidden : kHidden)
        for (const int count : kTokens) {
          const std::string name = std::string(kernels->name) + (format == TileFormat::NineBit ? "/fp9" : "/e4m3") +
                                   "/hidden:" + std::to_string(hidden) + "/tokens:" + std::to_string(count);
          benchmark::RegisterBenchmark(name.c_str(), run_slice, *kernels, format, hidden, count);
        }
  struct Type {
    const char* name;
    engine::DenseType type;
    int bytes;
  };
  for (const Type& type : {Type{"bf16", engine::DenseType::Bf16, 2}, Type{"fp8", engine::DenseType::F8E4M3, 1},
                           Type{"f16", engine::DenseType::F16, 2}, Type{"f32", engine::DenseType::F32, 4}})
    for (const int columns : {1536, 2048, 7168})
      for (const int count : {1, 2, 8, 32}) {
        const std::string name =
            std::string("dense/") + type.name + "/columns:" + std::to_string(columns) + "/tokens:" + std::to_string(count);
        benchmark::RegisterBenchmark(name.c_str(), run_dense, type.type, type.bytes, columns, count);
      }
}

} // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add_rows();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
