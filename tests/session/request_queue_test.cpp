#include "engine/session/request_queue.hpp"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace ductl::engine {
namespace {

// Waits until the queue is that long; bounded, for what another thread is about to do.
void await_waiting(const RequestQueue& queue, int count) {
  for (int i = 0; i < 10'000 && queue.waiting() != count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(queue.waiting(), count);
}

TEST(RequestQueue, turns_come_one_at_a_time_in_order_of_arrival) {
  RequestQueue queue(10);
  auto first = queue.enter({});
  ASSERT_TRUE(first);
  std::vector<int> order;
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      const auto turn = queue.enter({});
      EXPECT_EQ(++inside, 1);
      order.push_back(i);
      --inside;
    });
    await_waiting(queue, i + 1);
  }
  { const auto done = std::move(*first); }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(RequestQueue, beyond_the_bound_a_request_is_refused_and_not_kept_waiting) {
  RequestQueue queue(1);
  auto first = queue.enter({});
  std::thread second([&] { EXPECT_TRUE(queue.enter({})); });
  await_waiting(queue, 1);
  const auto third = queue.enter({});
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kQueueFull);
  { const auto done = std::move(*first); }
  second.join();
}

TEST(RequestQueue, one_that_is_cancelled_while_it_waits_leaves_the_line) {
  RequestQueue queue(10);
  auto first = queue.enter({});
  std::atomic<bool> cancel = false;
  std::thread second([&] {
    const auto turn = queue.enter([&] { return cancel.load(); });
    ASSERT_FALSE(turn);
    EXPECT_EQ(turn.error().code, ErrorCode::kCancelled);
  });
  await_waiting(queue, 1);
  cancel = true;
  second.join();
  EXPECT_EQ(queue.waiting(), 0);
  { const auto done = std::move(*first); }
  EXPECT_TRUE(queue.enter({}));
}

} // namespace
} // namespace ductl::engine
