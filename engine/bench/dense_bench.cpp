#include "engine/bench/dense_bench.hpp"

#include "agent/bench/machine.hpp"
#include "agent/bench/mapped_memory.hpp"
#include "engine/attention/kernels/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

namespace ductl::engine {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kPieceBytes = 32u << 20, kSetMin = 512u << 20;

struct Shape {
  const char* name;
  DenseType type;
  int element_bytes, columns;
  bool headline;
};
constexpr Shape kShapes[] = {{"bf16", DenseType::Bf16, 2, 2048, true},   {"bf16", DenseType::Bf16, 2, 7168, true},
                             {"fp8", DenseType::F8E4M3, 1, 1536, true},  {"fp8", DenseType::F8E4M3, 1, 7168, true},
                             {"fp8", DenseType::F8E4M3, 1, 16384, true}, {"f16", DenseType::F16, 2, 4096, false},
                             {"f32", DenseType::F32, 4, 2048, false}};
constexpr int kBatches[] = {2, 3, 4, 8, 32};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Random bytes that are finite numbers in every type, read piece by piece, so that each comes cold.
class WeightPool {
public:
  static Expected<WeightPool> make(std::size_t bytes) {
    WeightPool pool;
    pool.bytes_ = bytes / kPieceBytes * kPieceBytes;
    auto memory = agent::bench::map_memory(pool.bytes_);
    if (!memory) return tl::unexpected(memory.error());
    pool.memory_ = std::move(*memory);
    std::mt19937_64 random(9);
    for (std::size_t at = 0; at < pool.bytes_; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random() & 0xbfbfbfbfbfbfbfbf; // exponents stay below the middle
      std::memcpy(pool.memory_.get() + at, &word, sizeof word);
    }
    return pool;
  }
  const std::byte* take(std::size_t bytes) {
    if (at_ + bytes > bytes_) at_ = 0;
    const std::byte* piece = memory_.get() + at_;
    at_ += (bytes + 127) / 128 * 128;
    return piece;
  }

private:
  agent::bench::MappedMemory memory_;
  std::size_t bytes_ = 0, at_ = 0;
};

class Bench {
public:
  Bench(WeightPool pool, int samples) : pool_(std::move(pool)), samples_(samples) { choose_stream(); }

  ordered_json row(const Shape& shape) {
    ordered_json out{{"type", shape.name}, {"columns", shape.columns}};
    std::vector<double> fractions, rates;
    const int rows_max = int(kPieceBytes) / shape.element_bytes / shape.columns;
    for (int sample = 0; sample < samples_; ++sample) {
      const double mine = double(bytes_of(shape, rows_max)) / product_seconds(shape, rows_max, 1);
      rates.push_back(mine / 1e9);
      fractions.push_back(mine / stream());
    }
    out["gbps"] = median(rates);
    out["gemv_fraction"] = median(fractions);
    for (const int tokens : kBatches) {
      std::vector<double> of_peak;
      const int rows = std::min(1536, rows_max);
      const double operations = 2.0 * rows * shape.columns * tokens;
      for (int sample = 0; sample < samples_; ++sample) {
        const double peak = agent::bench::fma_rate();
        of_peak.push_back(operations / product_seconds(shape, rows, tokens) / peak);
      }
      out[fmt::format("peak_fraction_{}", tokens)] = median(of_peak);
    }
    return out;
  }

private:
  static std::size_t bytes_of(const Shape& shape, int rows) { return std::size_t(rows) * shape.columns * shape.element_bytes; }

  double product_seconds(const Shape& shape, int rows, int tokens) {
    x_.assign(std::size_t(tokens) * shape.columns, 0.5F);
    y_.resize(std::size_t(tokens) * rows);
    scale_.assign(std::size_t(rows / kDenseScaleBlock + 1) * (shape.columns / kDenseScaleBlock + 1), 0.01F);
    DenseMatrix matrix;
    matrix.data = reinterpret_cast<const std::uint8_t*>(pool_.take(bytes_of(shape, rows)));
    matrix.scale = reinterpret_cast<const std::uint8_t*>(scale_.data());
    matrix.type = shape.type;
    matrix.rows = rows;
    matrix.columns = shape.columns;
    const DenseProduct job{&matrix, 0, rows, tokens, x_.data(), shape.columns, y_.data(), rows};
    const double start = agent::bench::thread_seconds();
    kernels().product(job);
    return agent::bench::thread_seconds() - start;
  }

  double stream_once(const agent::bench::StreamSetting& setting) {
    return agent::bench::stream_rate(pool_.take(kPieceBytes), kPieceBytes, setting, sink_);
  }
  double stream() {
    double best = 0;
    for (const auto& setting : best_) best = std::max(best, stream_once(setting));
    return best;
  }
  void choose_stream() {
    std::vector<std::pair<double, agent::bench::StreamSetting>> looked;
    for (const auto& setting : agent::bench::stream_settings()) looked.emplace_back(stream_once(setting), setting);
    std::sort(looked.begin(), looked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (std::size_t i = 0; i < 3; ++i) best_.push_back(looked[i].second);
  }

  WeightPool pool_;
  int samples_;
  std::vector<float> x_, y_, scale_;
  std::vector<agent::bench::StreamSetting> best_;
  std::uint64_t sink_ = 0;
};

} // namespace

Expected<ordered_json> bench_dense(const DenseBenchOptions& options) {
  if (avx2_kernels() == nullptr)
    return fail(ErrorCode::kUsage, "this CPU has no AVX2, FMA or F16C: only scalar kernels run here", "", "measure elsewhere");
  const std::uint64_t cache = agent::bench::last_level_cache_bytes();
  const std::size_t set = options.set_bytes != 0 ? options.set_bytes : std::max<std::size_t>(kSetMin, 3 * cache);
  if (set <= 2 * cache || set < 4 * kPieceBytes)
    return fail(ErrorCode::kUsage, fmt::format("a set of {} bytes says nothing beside a last level cache of {}", set, cache), "",
                fmt::format("leave it out, or ask for more than {}", std::max<std::uint64_t>(2 * cache, 4 * kPieceBytes)));
  auto pool = WeightPool::make(set);
  if (!pool) return tl::unexpected(pool.error());
  Bench bench(std::move(*pool), options.samples);
  ordered_json rows = ordered_json::array();
  double lowest = 1e9;
  for (const Shape& shape : kShapes) {
    options.on_row(fmt::format("the host's {} of {} columns", shape.name, shape.columns));
    rows.push_back(bench.row(shape));
    if (shape.headline) lowest = std::min(lowest, rows.back().at("gemv_fraction").get<double>());
  }
  return ordered_json{{"host_kernels", kernels().name}, {"host_gemv_fraction", lowest}, {"host_shapes", std::move(rows)}};
}

} // namespace ductl::engine
