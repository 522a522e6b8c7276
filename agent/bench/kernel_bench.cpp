#include "agent/bench/kernel_bench.hpp"

#include "agent/bench/machine.hpp"
#include "agent/bench/slice_pool.hpp"
#include "inventory/clock.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <random>
#include <sched.h>
#include <thread>
#include <vector>

namespace ductl::agent::bench {
namespace {

using nlohmann::ordered_json;
using weights::TileFormat;

constexpr std::size_t kPieceBytes = 32u << 20; // of one sample
constexpr std::size_t kSetMin = 512u << 20;

double seconds_since(Instant start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

// One thread's activations, sums and scratch.
class Tokens {
public:
  Tokens(int hidden, int tokens) : hidden_(hidden), tokens_(tokens), scratch_(kernel_scratch_floats(tokens) + 16) {
    std::mt19937 random(11);
    std::normal_distribution<float> gauss(0, 1);
    stride_ = static_cast<std::size_t>(hidden) + 16; // rows of a power of two would all fall into one set of the cache
    x_.resize(stride_ * static_cast<std::size_t>(tokens));
    y_.resize(x_.size());
    for (float& value : x_) value = gauss(random);
    fixed_scale_.assign(static_cast<std::size_t>((hidden + 127) / 128), 0x1p8f);
    weight_.assign(static_cast<std::size_t>(tokens), 0.25f);
    guard_.assign(static_cast<std::size_t>(tokens), 0);
    for (int t = 0; t < tokens; ++t) {
      x_rows_.push_back(x_.data() + stride_ * static_cast<std::size_t>(t));
      y_rows_.push_back(y_.data() + stride_ * static_cast<std::size_t>(t));
    }
    guard_factor_.fill(1.0f);
  }

  using Kernel = void (*)(const ExpertJob& job);
  void run(Kernel kernel, TileFormat format, const std::byte* const* slices, int count, const std::byte* next) {
    void* place = scratch_.data();
    std::size_t room = scratch_.size() * sizeof(float);
    kernel({.format = format,
            .slices = slices,
            .count = count,
            .hidden = hidden_,
            .tokens = tokens_,
            .x = x_rows_.data(),
            .weight = weight_.data(),
            .fixed_scale = fixed_scale_.data(),
            .guard_factor = guard_factor_.data(),
            .y = y_rows_.data(),
            .guard = guard_.data(),
            .scratch = static_cast<float*>(std::align(64, room - 60, place, room)),
            .next = next});
  }

private:
  int hidden_, tokens_;
  std::size_t stride_ = 0;
  std::vector<float> scratch_, x_, fixed_scale_, weight_;
  std::vector<std::int32_t> y_;
  std::vector<std::uint64_t> guard_;
  std::vector<const float*> x_rows_;
  std::vector<std::int32_t*> y_rows_;
  std::array<float, kCallSlicesMax> guard_factor_{};
};

// The pool's slices in a fixed random order, so that no prefetcher of the hardware learns the way.
class Walk {
public:
  explicit Walk(const SlicePool& pool) : pool_(pool), order_(pool.size()) {
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(3));
  }
  [[nodiscard]] const std::byte* at(std::size_t number) const { return pool_.slice(order_[number % order_.size()]); }
  std::size_t take(std::size_t count) { return std::exchange(next_, next_ + count); }

private:
  const SlicePool& pool_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;
};

class Bench {
public:
  Bench(const ExpertKernels& kernels, const BenchOptions& options, std::size_t set_bytes)
      : kernels_(kernels), options_(options), set_bytes_(set_bytes), cpus_(usable_cpus()) {}

  Expected<ordered_json> run();

private:
  struct Shape {
    const char* name;
    int hidden, slices, experts; // of one duck, that one token meets
  };

  Expected<void> headline(ordered_json& out);
  Expected<void> shape_row(const Shape& shape, ordered_json& rows);
  void choose_stream(const SlicePool& pool);
  double stream(const SlicePool& pool, std::size_t thread);
  double pass(const SlicePool& pool, Walk& walk, Tokens& tokens, int group, std::size_t slices, std::size_t expert_slices) {
    return pass(kernels_.forward, pool, walk, tokens, group, slices, expert_slices);
  }
  static double pass(Tokens::Kernel kernel, const SlicePool& pool, Walk& walk, Tokens& tokens, int group, std::size_t slices,
                     std::size_t expert_slices);
  double cold_fraction(const SlicePool& pool, int token_count, int group);
  double two_core_fraction(const SlicePool& pool);
  double two_threads_over_one(const SlicePool& pool);
  double hot_cycles(int hidden, int token_count);
  double prefill_fraction(const SlicePool& pool, int token_count);
  double prefill_down_fraction(const SlicePool& pool, int token_count);
  double format_rate(const SlicePool& eight, const SlicePool& nine);

  const ExpertKernels& kernels_;
  const BenchOptions& options_;
  std::size_t set_bytes_;
  std::vector<int> cpus_;
  std::vector<StreamSetting> best_;  // the settings worth trying on this machine
  std::vector<double> stream_rates_; // of every pair
  std::array<std::size_t, 2> stream_at_{};
  std::uint64_t sink_ = 0;
};

// The fastest settings of a first look; each pair takes the best of them.
void Bench::choose_stream(const SlicePool& pool) {
  std::vector<std::pair<double, StreamSetting>> looked;
  const std::size_t piece = std::min(kPieceBytes, pool.bytes() / 16 / 128 * 128);
  std::size_t at = 0;
  for (const StreamSetting& setting : stream_settings()) {
    if (at + piece > pool.bytes()) at = 0;
    looked.emplace_back(stream_rate(pool.begin() + at, piece, setting, sink_), setting);
    at += piece;
  }
  std::sort(looked.begin(), looked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  best_.clear();
  for (std::size_t i = 0; i < 3; ++i) best_.push_back(looked[i].second);
}

double Bench::stream(const SlicePool& pool, std::size_t thread) {
  double rate = 0;
  const std::size_t half = pool.bytes() / 2, piece = std::min(kPieceBytes, half / 4 / 128 * 128);
  for (const StreamSetting& setting : best_) {
    if (stream_at_[thread] + piece > half) stream_at_[thread] = 0;
    std::uint64_t sink = 0;
    rate = std::max(rate, stream_rate(pool.begin() + thread * (half / 128 * 128) + stream_at_[thread], piece, setting, sink));
    stream_at_[thread] += piece;
    if (thread == 0) sink_ ^= sink;
  }
  return rate;
}

// Seconds of `slices` slices, `group` a call; every `expert_slices` of them are one expert's.
double Bench::pass(Tokens::Kernel kernel, const SlicePool& pool, Walk& walk, Tokens& tokens, int group, std::size_t slices,
                   std::size_t expert_slices) {
  const std::size_t first = walk.take(slices);
  const double start = thread_seconds();
  for (std::size_t i = 0; i < slices;) {
    const std::size_t count = std::min({static_cast<std::size_t>(group), slices - i, expert_slices - i % expert_slices});
    std::array<const std::byte*, kCallSlicesMax> some{};
    for (std::size_t j = 0; j < count; ++j) some[j] = walk.at(first + i + j);
    tokens.run(kernel, pool.layout().format, some.data(), static_cast<int>(count), walk.at(first + i + count));
    i += count;
  }
  return thread_seconds() - start;
}

// Bytes a second over the stream's, on one core.
double Bench::cold_fraction(const SlicePool& pool, int token_count, int group) {
  Tokens tokens(pool.layout().hidden, token_count);
  Walk walk(pool);
  const std::size_t slices = std::max<std::size_t>(8, kPieceBytes / pool.slice_bytes());
  std::vector<double> ratios;
  for (int sample = 0; sample < options_.samples; ++sample) {
    const double mine = static_cast<double>(slices * pool.slice_bytes()) / pass(pool, walk, tokens, group, slices, slices);
    const double plain = stream(pool, 0);
    stream_rates_.push_back(plain);
    ratios.push_back(mine / plain);
  }
  return median(ratios);
}

// Both cores at once: kernels on both against streams on both.
double Bench::two_core_fraction(const SlicePool& pool) {
  const std::size_t slices = std::max<std::size_t>(8, kPieceBytes / pool.slice_bytes());
  std::vector<double> ratios;
  std::array<double, 2> mine{}, plain{};
  std::barrier gate(2);
  const auto work = [&](std::size_t thread) {
    pin_to(cpus_[thread]);
    Tokens tokens(pool.layout().hidden, 1);
    Walk walk(pool);
    walk.take(thread * pool.size() / 2);
    for (int sample = 0; sample < options_.samples; ++sample) {
      gate.arrive_and_wait();
      mine[thread] = static_cast<double>(slices * pool.slice_bytes()) / pass(pool, walk, tokens, 4, slices, slices);
      gate.arrive_and_wait();
      plain[thread] = stream(pool, thread);
      gate.arrive_and_wait();
      if (thread == 0) ratios.push_back((mine[0] + mine[1]) / (plain[0] + plain[1]));
    }
  };
  std::thread other(work, 1);
  std::thread one(work, 0);
  one.join();
  other.join();
  return median(ratios);
}

// Whole slices from a counter, claimed one ahead, by two threads and by one: wall times of the same work.
double Bench::two_threads_over_one(const SlicePool& pool) {
  const std::size_t slices = std::max<std::size_t>(16, 2 * kPieceBytes / pool.slice_bytes());
  Walk walk(pool);
  std::atomic<std::size_t> counter{0};
  std::size_t first = 0;
  const auto claim = [&](Tokens& tokens) {
    for (std::size_t mine = counter++; mine < slices;) {
      const std::size_t next = counter++;
      const std::byte* slice = walk.at(first + mine);
      tokens.run(kernels_.forward, pool.layout().format, &slice, 1, walk.at(first + next));
      mine = next;
    }
  };
  std::vector<double> ratios;
  std::array<double, 2> seconds{}; // of one thread, of two
  std::barrier gate(2);
  const auto work = [&](int thread) {
    pin_to(cpus_[static_cast<std::size_t>(thread)]);
    Tokens tokens(pool.layout().hidden, 1);
    for (int sample = 0; sample < 2 * options_.samples; ++sample) {
      const bool both = sample % 2 == 1;
      if (thread == 0) {
        first = walk.take(slices);
        counter = 0;
      }
      gate.arrive_and_wait();
      const Instant start = Clock::now();
      if (thread == 0 || both) claim(tokens);
      gate.arrive_and_wait();
      if (thread != 0) continue;
      seconds[both ? 1 : 0] = seconds_since(start);
      if (both) ratios.push_back(seconds[0] / seconds[1]);
    }
  };
  std::thread other(work, 1);
  std::thread one(work, 0);
  one.join();
  other.join();
  return median(ratios);
}

// Cycles for 8 weights and a token batch, one slice over and over.
double Bench::hot_cycles(int hidden, int token_count) {
  auto pool = SlicePool::make(hidden, TileFormat::NineBit, 1);
  if (!pool) return 0;
  Tokens tokens(hidden, token_count);
  const std::byte* slice = pool->slice(0);
  const int repeat = std::max(8, 400'000'000 / (48 * hidden * token_count));
  std::vector<double> cycles;
  for (int sample = 0; sample < options_.samples; ++sample) {
    const double hertz = clock_rate();
    const double start = thread_seconds();
    for (int i = 0; i < repeat; ++i) tokens.run(kernels_.forward, TileFormat::NineBit, &slice, 1, slice);
    cycles.push_back((thread_seconds() - start) / repeat * hertz / (48.0 * hidden / 8));
  }
  return median(cycles);
}

// 6 T H I operations over the time of gate, up and down together, cold, over the peak.
double Bench::prefill_fraction(const SlicePool& pool, int token_count) {
  const int hidden = pool.layout().hidden;
  Tokens tokens(hidden, token_count);
  Walk walk(pool);
  const auto slices = static_cast<std::size_t>(std::max(8, 8 * (128 / token_count)));
  const double operations = 6.0 * token_count * hidden * weights::kSliceChannels * static_cast<double>(slices);
  std::vector<double> ratios;
  for (int sample = 0; sample < options_.samples; ++sample) {
    const double peak = fma_rate();
    ratios.push_back(operations / pass(pool, walk, tokens, kCallSlicesMax, slices, kCallSlicesMax) / peak);
  }
  return median(ratios);
}

// The same of down alone: 2 T H I.
double Bench::prefill_down_fraction(const SlicePool& pool, int token_count) {
  const int hidden = pool.layout().hidden;
  Tokens tokens(hidden, token_count);
  Walk walk(pool);
  const auto slices = static_cast<std::size_t>(std::max(16, 16 * (128 / token_count)));
  const double operations = 2.0 * token_count * hidden * weights::kSliceChannels * static_cast<double>(slices);
  std::vector<double> ratios;
  for (int sample = 0; sample < options_.samples; ++sample) {
    const double peak = fma_rate();
    const double seconds = pass(kernels_.down_only, pool, walk, tokens, kCallSlicesMax, slices, kCallSlicesMax);
    ratios.push_back(operations / seconds / peak);
  }
  return median(ratios);
}

// Weights a second of the one format over the other's.
double Bench::format_rate(const SlicePool& eight, const SlicePool& nine) {
  Tokens tokens(nine.layout().hidden, 1);
  Walk walk_eight(eight), walk_nine(nine);
  const std::size_t slices = std::max<std::size_t>(8, kPieceBytes / nine.slice_bytes());
  std::vector<double> ratios;
  for (int sample = 0; sample < options_.samples; ++sample) {
    const double of_nine = pass(nine, walk_nine, tokens, 4, slices, slices);
    ratios.push_back(of_nine / pass(eight, walk_eight, tokens, 4, slices, slices));
  }
  return median(ratios);
}

Expected<void> Bench::headline(ordered_json& out) {
  constexpr int kHidden = 7168;
  options_.on_row("filling memory with slices");
  auto nine = SlicePool::make(kHidden, TileFormat::NineBit, set_bytes_);
  if (!nine) return tl::unexpected(nine.error());
  choose_stream(*nine);
  options_.on_row("decode, one core");
  out["fp9_gemv_fraction_1core"] = cold_fraction(*nine, 1, 4);
  out["fp9_gemv_fraction_1core_t2"] = cold_fraction(*nine, 2, 4);
  out["fp9_gemv_fraction_1core_t3"] = cold_fraction(*nine, 3, 4);
  options_.on_row("decode, in the second-level cache");
  const double t1 = hot_cycles(2048, 1), t2 = hot_cycles(2048, 2);
  out["cycles_per_8_l2_t1"] = t1;
  out["t2_over_t1_l2"] = t2 / t1;
  if (cpus_.size() >= 2) {
    options_.on_row("decode, two cores");
    out["fp9_gemv_fraction_2core"] = two_core_fraction(*nine);
    out["two_threads_over_one"] = two_threads_over_one(*nine);
  } else {
    out["fp9_gemv_fraction_2core"] = out["two_threads_over_one"] = nullptr;
  }
  for (const int tokens : {8, 32, 128}) {
    options_.on_row(fmt::format("prefill of {} tokens", tokens));
    out[fmt::format("prefill_peak_fraction_{}", tokens)] = prefill_fraction(*nine, tokens);
    out[fmt::format("prefill_down_peak_fraction_{}", tokens)] = prefill_down_fraction(*nine, tokens);
  }
  options_.on_row("e4m3 against fp9");
  const auto eight = SlicePool::make(kHidden, TileFormat::EightBit, set_bytes_);
  if (!eight) return tl::unexpected(eight.error());
  out["e4m3_over_fp9_weights_rate"] = format_rate(*eight, *nine);
  return {};
}

// One token through a layer's slices of one duck, again and again: `experts` experts of `slices` each.
Expected<void> Bench::shape_row(const Shape& shape, ordered_json& rows) {
  options_.on_row(shape.name);
  const auto pool = SlicePool::make(shape.hidden, TileFormat::NineBit, set_bytes_);
  if (!pool) return tl::unexpected(pool.error());
  Tokens tokens(shape.hidden, 1);
  Walk walk(*pool);
  const auto layer = static_cast<std::size_t>(shape.slices * shape.experts);
  const std::size_t layers = std::max<std::size_t>(1, kPieceBytes / (layer * pool->slice_bytes()));
  std::vector<double> ratios, layer_us;
  for (int sample = 0; sample < options_.samples; ++sample) {
    const double seconds =
        pass(*pool, walk, tokens, std::min(4, shape.slices), layers * layer, static_cast<std::size_t>(shape.slices));
    const double plain = stream(*pool, 0);
    ratios.push_back(static_cast<double>(layers * layer * pool->slice_bytes()) / seconds / plain);
    layer_us.push_back(1e6 * seconds / static_cast<double>(layers));
  }
  rows.push_back({{"shape", shape.name},
                  {"hidden", shape.hidden},
                  {"slices_an_expert", shape.slices},
                  {"experts", shape.experts},
                  {"layer_us", median(layer_us)},
                  {"fraction_of_stream", median(ratios)}});
  return {};
}

Expected<ordered_json> Bench::run() {
  if (!cpus_.empty()) pin_to(cpus_.front());
  ordered_json out{{"schema", "ductl/bench-kernels/v1"},
                   {"cpu", cpu_name()},
                   {"kernels", kernels_.name},
                   {"last_level_cache_bytes", last_level_cache_bytes()},
                   {"set_bytes", set_bytes_},
                   {"samples", options_.samples},
                   {"clock_ghz", clock_rate() / 1e9},
                   {"stream_gbps", 0.0}};
  if (auto done = headline(out); !done) return tl::unexpected(done.error());
  ordered_json rows = ordered_json::array();
  constexpr Shape kShapes[] = {{"DeepSeek-V3, 32 ducks", 7168, 4, 9},
                               {"Qwen3-30B-A3B, 8 ducks", 2048, 6, 8},
                               {"Qwen3-30B-A3B, 32 ducks", 2048, 2, 8},
                               {"Qwen3-235B-A22B, 32 ducks", 4096, 3, 8}};
  for (const Shape& shape : kShapes)
    if (auto done = shape_row(shape, rows); !done) return tl::unexpected(done.error());
  out["layer_pass_fraction"] = rows.front().at("fraction_of_stream");
  out["stream_gbps"] = median(stream_rates_) / 1e9;
  out["shapes"] = std::move(rows);
  if (sink_ == 42) out["note"] = "the sum of all that was read is 42"; // keeps the reads
  return out;
}

} // namespace

Expected<ordered_json> bench_kernels(const ExpertKernels& kernels, const BenchOptions& options) {
  const std::uint64_t cache = last_level_cache_bytes();
  const std::size_t set = options.set_bytes != 0 ? options.set_bytes : std::max<std::size_t>(kSetMin, 3 * cache);
  if (set <= 2 * cache)
    return fail(ErrorCode::kUsage, fmt::format("a set of {} bytes says nothing beside a last level cache of {}", set, cache), "",
                fmt::format("leave it out, or ask for more than {}", 2 * cache));
  return Bench(kernels, options, set).run();
}

} // namespace ductl::agent::bench
