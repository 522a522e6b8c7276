// Measures the dense kernels on this machine: one token against the speed of a streaming read, many tokens against the
// peak of the multiply-add units. dense_bench [threads]
#include "engine/attention/kernels/kernels.hpp"
#include "engine/attention/thread_pool.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace {

using namespace ductl::engine;

// The best of several runs, in seconds: other work on the machine only ever adds.
double best_time(const std::function<void()>& body) {
  double best = 1e9;
  for (int run = 0; run < 15; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

struct Bench {
  ThreadPool& pool;
  std::vector<std::uint8_t> bytes; // larger than any cache
  std::vector<float> scales;

  double streaming_read() {
    const auto* words = reinterpret_cast<const std::uint64_t*>(bytes.data());
    const auto pieces = int(bytes.size() / (1 << 16));
    std::vector<std::uint64_t> sums(std::size_t(pool.threads()) * 8);
    const double time = best_time([&] {
      pool.run(pieces, 16, [&](int begin, int end, int thread) {
        std::uint64_t a = 0, b = 0, c = 0, d = 0;
        for (std::size_t i = std::size_t(begin) << 13; i < std::size_t(end) << 13; i += 8) {
          a += words[i] ^ words[i + 4];
          b += words[i + 1] ^ words[i + 5];
          c += words[i + 2] ^ words[i + 6];
          d += words[i + 3] ^ words[i + 7];
        }
        sums[std::size_t(thread) * 8] += a + b + c + d;
      });
    });
    return double(bytes.size()) / time;
  }

  double product(DenseType type, int rows, int columns, int tokens) {
    const DenseMatrix matrix{bytes.data(), reinterpret_cast<const std::uint8_t*>(scales.data()), type, false, rows, columns, 0};
    const std::vector<float> x = ductl::test::TinyRandom(1).normals(std::size_t(tokens) * columns);
    std::vector<float> y(std::size_t(tokens) * rows);
    return best_time([&] {
      pool.run(rows, 48, [&](int begin, int end, int) {
        kernels().product({&matrix, begin, end, tokens, x.data(), columns, y.data(), rows});
      });
    });
  }

  // Multiply-adds a second: a matrix that lies in L1 against tokens that do too has nothing else to wait for.
  double fma_peak() {
    std::vector<float> x(4 * 256, 1), y(std::size_t(pool.threads()) * 4 * 3);
    const DenseMatrix matrix{bytes.data(), nullptr, DenseType::F32, false, 3, 256, 0};
    const double time = best_time([&] {
      pool.run(pool.threads(), 1, [&](int, int, int thread) {
        for (int i = 0; i < 2000; ++i)
          kernels().product({&matrix, 0, 3, 4, x.data(), 256, y.data() + std::size_t(thread) * 12, 3});
      });
    });
    return 2000.0 * 3 * 4 * 256 * pool.threads() / time;
  }
};

} // namespace

int main(int argc, char** argv) {
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 0);
  Bench bench{pool, std::vector<std::uint8_t>(std::size_t(256) << 20), std::vector<float>(1 << 16, 0.01F)};
  for (std::size_t i = 0; i < bench.bytes.size(); ++i) bench.bytes[i] = std::uint8_t((i * 2654435761U) >> 24) & 0xbf;
  const double read = bench.streaming_read(), peak = bench.fma_peak();
  std::printf("%s kernels, %d threads; streaming read %.1f GB/s; multiply-add %.1f G/s (from L1)\n", kernels().name,
              pool.threads(), read * 1e-9, peak * 1e-9);
  struct Shape {
    const char* name;
    DenseType type;
    int bytes, columns;
  };
  constexpr Shape kShapes[] = {{"bf16", DenseType::Bf16, 2, 576},
                               {"bf16", DenseType::Bf16, 2, 4096},
                               {"fp8", DenseType::F8E4M3, 1, 576},
                               {"fp8", DenseType::F8E4M3, 1, 7168}};
  for (const Shape& shape : kShapes) {
    const auto rows = int(bench.bytes.size() / shape.bytes / shape.columns);
    const double rate = double(rows) * shape.columns * shape.bytes / bench.product(shape.type, rows, shape.columns, 1);
    std::printf("%-4s [%7d x %4d]  1 token   %5.1f GB/s  %3.0f %% of a streaming read\n", shape.name, rows, shape.columns,
                rate * 1e-9, 100 * rate / read);
  }
  for (const Shape& shape : kShapes)
    for (const int tokens : {2, 8, 32, 64}) {
      const double rate = 1536.0 * shape.columns * tokens / bench.product(shape.type, 1536, shape.columns, tokens);
      std::printf("%-4s [%7d x %4d] %2d tokens  %5.1f G/s  %3.0f %% of the multiply-adds\n", shape.name, 1536, shape.columns,
                  tokens, rate * 1e-9, 100 * rate / peak);
    }
}
