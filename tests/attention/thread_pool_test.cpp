#include "engine/attention/thread_pool.hpp"

#include <gtest/gtest.h>
#include <numeric>

namespace ductl::engine {
namespace {

TEST(ThreadPool, EveryIndexIsDoneExactlyOnceInEveryOfManyJobs) {
  ThreadPool pool(4);
  ASSERT_EQ(pool.threads(), 4);
  std::vector<int> done(1000);
  for (int job = 0; job < 2000; ++job) {
    const int count = job % 1000 + 1;
    pool.run(count, job % 13 + 1, [&](int begin, int end, int thread) {
      ASSERT_LT(thread, 4);
      for (int i = begin; i < end; ++i) ++done[i];
    });
    for (int i = 0; i < count; ++i) ASSERT_EQ(std::exchange(done[i], 0), 1) << "job " << job << " index " << i;
  }
}

TEST(ThreadPool, NoTwoPiecesRunAtOnceWithTheSameThreadNumber) {
  ThreadPool pool(3);
  std::atomic<int> inside[3] = {};
  for (int job = 0; job < 500; ++job)
    pool.run(40, 1, [&](int, int, int thread) {
      EXPECT_EQ(inside[thread].fetch_add(1), 0);
      inside[thread].fetch_sub(1);
    });
}

TEST(ThreadPool, CallersFromTwoThreadsTakeTurns) {
  ThreadPool pool(2);
  std::atomic<int> sum{0};
  const auto caller = [&] {
    for (int job = 0; job < 500; ++job) pool.run(10, 1, [&](int begin, int, int) { sum += begin; });
  };
  std::thread other(caller);
  caller();
  other.join();
  EXPECT_EQ(sum, 2 * 500 * 45);
}

TEST(ThreadPool, OneThreadAndNothingToDo) {
  ThreadPool pool(1);
  int calls = 0;
  pool.run(0, 8, [&](int, int, int) { ++calls; });
  EXPECT_EQ(calls, 0);
  pool.run(20, 8, [&](int begin, int end, int thread) {
    EXPECT_EQ(thread, 0);
    calls += end - begin;
  });
  EXPECT_EQ(calls, 20);
}

} // namespace
} // namespace ductl::engine
