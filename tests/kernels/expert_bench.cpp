// Figures of the expert kernels on one core; not a test. Usage: expert_bench [hidden ...]   (default 576 2048 7168)
//
//   hot: one slice over and over (L2), cycles per 8 weights and token batch.
//   cold: slices of a pool far larger than the last-level cache, alternating with a plain streaming read of as many fresh
//   bytes (prefetched up to 16 KiB ahead, the best of the distances), medians of the samples. CPU time, not wall time.
//   Peak: 2 x 8 fused multiply-adds a cycle, the clock measured by a chain of dependent multiplications.
#include "inventory/cpu_features.hpp"
#include "tests/kernels/job.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

namespace {

using namespace ductl;
using namespace ductl::agent;

constexpr std::size_t kPoolBytes = 640u << 20; // of cold slices, and again for the stream
constexpr int kSamples = 9;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// A chain of dependent multiplications, three cycles each on every x86-64 of the last fifteen years.
double measure_hertz() {
  std::uint64_t value = 3;
  constexpr int kSteps = 60'000'000;
  const double start = cpu_seconds();
  for (int i = 0; i < kSteps; ++i) {
    value *= 0x9E3779B97F4A7C15u;
    asm volatile("" : "+r"(value));
  }
  return 3.0 * kSteps / (cpu_seconds() - start);
}

__attribute__((target("avx2"))) std::uint64_t stream(const std::byte* data, std::size_t bytes, std::size_t ahead) {
  using Lane = long long __attribute__((vector_size(32)));
  Lane sum[4] = {};
  const auto* lanes = reinterpret_cast<const Lane*>(data);
  for (std::size_t i = 0; i < bytes / sizeof(Lane); i += 4) {
    if (ahead != 0) {
      __builtin_prefetch(reinterpret_cast<const char*>(lanes + i) + ahead);
      __builtin_prefetch(reinterpret_cast<const char*>(lanes + i) + ahead + 64);
    }
    for (std::size_t j = 0; j < 4; ++j) sum[j] ^= lanes[i + j];
  }
  const Lane all = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
  return static_cast<std::uint64_t>(all[0] ^ all[1] ^ all[2] ^ all[3]);
}

struct Bench {
  explicit Bench(int hidden_size)
      : hidden(hidden_size),
        slice_bytes(weights::slice_layout(hidden).bytes),
        count(kPoolBytes / slice_bytes),
        job(hidden, kCallTokensMax, 7),
        pool(test::aligned<std::byte>(count * slice_bytes + 65536)),
        stream_pool(test::aligned<std::byte>(kPoolBytes + 65536)) {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(pool.get() + i * slice_bytes, job.slice_.get(), slice_bytes);
    std::memset(stream_pool.get(), 1, kPoolBytes);
    for (auto& x : job.x_) x_.push_back(x.data());
    for (auto& y : job.y_) y_.push_back(y.data());
  }

  void forward(const std::byte* slice, int tokens) {
    avx2_kernels().slice_forward({slice, hidden, tokens, x_.data(), job.weight_.data(), job.fixed_scale_.data(), 1.0f, y_.data(),
                                  job.guard_.data(), job.scratch_.get()});
  }

  [[nodiscard]] double weights_of(std::size_t slices) const { return 48.0 * hidden * static_cast<double>(slices); }

  double hot_seconds(int tokens) { // a slice
    const int repeat = std::max(1, static_cast<int>(2e8 / (weights_of(1) * tokens)));
    std::vector<double> samples;
    for (int sample = 0; sample < kSamples; ++sample) {
      const double start = cpu_seconds();
      for (int i = 0; i < repeat; ++i) forward(job.slice_.get(), tokens);
      samples.push_back((cpu_seconds() - start) / repeat);
    }
    return median(samples);
  }

  // Bytes a second of the kernel and of the stream, alternating, each sample on fresh memory.
  std::pair<double, double> cold(int tokens) {
    const std::size_t part = std::max<std::size_t>(1, count / (kSamples + 1));
    std::vector<double> kernel, plain;
    std::uint64_t sink = 0;
    for (std::size_t sample = 0; sample < kSamples; ++sample) {
      double start = cpu_seconds();
      for (std::size_t i = sample * part; i < (sample + 1) * part; ++i) forward(pool.get() + i * slice_bytes, tokens);
      kernel.push_back(static_cast<double>(part * slice_bytes) / (cpu_seconds() - start));
      double best = 0;
      const std::size_t piece = kPoolBytes / (kSamples * 5) / 4096 * 4096;
      std::size_t at = sample * 5 * piece;
      for (const std::size_t ahead : {0u, 2048u, 4096u, 8192u, 12288u}) {
        start = cpu_seconds();
        sink ^= stream(stream_pool.get() + at, piece, ahead);
        best = std::max(best, static_cast<double>(piece) / (cpu_seconds() - start));
        at += piece;
      }
      plain.push_back(best);
    }
    if (sink == 42) std::puts("");
    return {median(kernel), median(plain)};
  }

  int hidden;
  std::size_t slice_bytes, count;
  test::Job job;
  test::Aligned<std::byte> pool, stream_pool;
  std::vector<const float*> x_;
  std::vector<std::int32_t*> y_;
};

void report(int hidden, double hertz) {
  Bench bench(hidden);
  std::printf("hidden %d, slice %zu bytes\n  tokens   cycles/8w   of FMA peak   cold GB/s   of stream\n", hidden,
              bench.slice_bytes);
  for (const int tokens : {1, 2, 3, 4, 8, 16, 32, 64}) {
    const double cycles = bench.hot_seconds(tokens) * hertz / (bench.weights_of(1) / 8);
    std::printf("  %6d   %9.2f   %11.2f", tokens, cycles, tokens / (2 * cycles));
    if (tokens <= 3) {
      const auto [kernel, plain] = bench.cold(tokens);
      std::printf("   %9.1f   %9.2f   (stream %.1f)", kernel / 1e9, kernel / plain, plain / 1e9);
    }
    std::puts("");
  }
}

} // namespace

int main(int argc, char** argv) {
  if (!cpu_has_avx2()) {
    std::puts("this CPU lacks AVX2, FMA or F16C");
    return 0;
  }
  const double hertz = measure_hertz();
  std::printf("clock %.2f GHz (taken as constant; the FMA peak is 2 x 8 a cycle)\n", hertz / 1e9);
  if (argc < 2)
    for (const int hidden : {576, 2048, 7168}) report(hidden, hertz);
  for (int i = 1; i < argc; ++i) report(std::atoi(argv[i]), hertz);
}
