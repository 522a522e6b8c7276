#include "agent/crew.hpp"

#include <gtest/gtest.h>

namespace ductl::agent {
namespace {

TEST(ThreadPlan, AloneOnItsCoresADuckLeavesOneToTheNetwork) {
  EXPECT_EQ(plan_threads(4, false, 0), (ThreadPlan{.threads = 3, .network_apart = true, .own_cores = true}));
  EXPECT_EQ(plan_threads(4, false, 2), (ThreadPlan{.threads = 2, .network_apart = true, .own_cores = true}));
  EXPECT_EQ(plan_threads(4, false, 4), (ThreadPlan{.threads = 4, .network_apart = false, .own_cores = true}));
  EXPECT_EQ(plan_threads(2, false, 0), (ThreadPlan{.threads = 2, .network_apart = false, .own_cores = true}));
  EXPECT_EQ(plan_threads(1, false, 0), (ThreadPlan{.threads = 1, .network_apart = false, .own_cores = true}));
}

TEST(ThreadPlan, NobodySpinsWhereCoresAreSharedOrTooFew) {
  EXPECT_EQ(plan_threads(16, true, 0), ThreadPlan{});
  EXPECT_EQ(plan_threads(16, true, 3), ThreadPlan{.threads = 3});
  EXPECT_EQ(plan_threads(2, false, 3), ThreadPlan{.threads = 3});
  EXPECT_EQ(plan_threads(2, false, 1000).threads, kThreadsMax);
}

TEST(ThreadPlan, IsSaidInWords) {
  EXPECT_EQ(text(plan_threads(4, false, 0)), "3 threads on cores of their own, the network apart");
  EXPECT_EQ(text({}), "1 thread on shared cores");
}

class CrewTest : public ::testing::TestWithParam<ThreadPlan> {};

TEST_P(CrewTest, HasAMemberForEachThreadBesideTheOwners) {
  const Crew crew(GetParam(), [](int) {});
  EXPECT_EQ(crew.size(), GetParam().threads - (GetParam().network_apart ? 0 : 1));
}

// Begins and ends as fast as it can, with and without waiting for members: none is lost, none works twice or outside.
TEST_P(CrewTest, EachMemberWorksAtMostOnceACallAndNeverOutside) {
  std::atomic<bool> open{false};
  std::atomic<int> outside{0}, worked{0};
  std::vector<int> times(64);
  Crew crew(GetParam(), [&](int member) {
    if (!open.load()) ++outside;
    ++times[static_cast<std::size_t>(member)]; // seen by the owner after end(), though no atomic
    ++worked;
  });
  long all = 0;
  for (int call = 0; call < 3000; ++call) {
    worked = 0;
    open = true;
    crew.begin();
    if (call % 3 == 0)
      while (worked.load() < crew.size()) std::this_thread::yield(); // would hang when a wake-up were lost
    crew.end();
    open = false;
    EXPECT_LE(worked.load(), crew.size());
    for (int& count : times) all += std::exchange(count, 0);
  }
  EXPECT_EQ(outside.load(), 0);
  EXPECT_GE(all, 1000L * crew.size());
}

TEST_P(CrewTest, EndsWhileItsMembersSleep) {
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> worked{0};
    Crew crew(GetParam(), [&](int) { ++worked; });
    if (i % 2 == 0) continue;
    crew.begin();
    while (worked.load() < crew.size()) std::this_thread::yield();
    crew.end();
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, CrewTest,
                         ::testing::Values(ThreadPlan{}, ThreadPlan{.threads = 2}, ThreadPlan{.threads = 4},
                                           ThreadPlan{.threads = 2, .network_apart = false, .own_cores = true},
                                           ThreadPlan{.threads = 3, .network_apart = true, .own_cores = true}));

} // namespace
} // namespace ductl::agent
