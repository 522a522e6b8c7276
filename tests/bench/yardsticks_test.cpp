#include "agent/bench/all_core_stream.hpp"
#include "inventory/cpu_features.hpp"

#include <gmock/gmock.h>

namespace ductl::agent::bench {
namespace {

TEST(AllCoreStream, ReadsAtARateThatMemoryHas) {
  if (!cpu_has_avx2()) GTEST_SKIP();
  for (const int threads : {1, 3}) {
    auto stream = AllCoreStream::make(threads);
    ASSERT_TRUE(stream) << stream.error().text();
    for (int i = 0; i < 40; ++i) { // round about in its memory
      const double rate = stream->rate();
      EXPECT_GT(rate, 1e7);
      EXPECT_LT(rate, 2e13);
    }
  }
}

} // namespace
} // namespace ductl::agent::bench
