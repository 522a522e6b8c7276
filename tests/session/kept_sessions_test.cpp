#include "engine/session/kept_sessions.hpp"

#include "tests/session/fake_model.hpp"

#include <gtest/gtest.h>

namespace ductl::engine {
namespace {

class Sessions : public testing::Test {
protected:
  // Chooses for the prompt, rewinds and runs the rest, as a generation does. Returns how much was cached.
  int turn(KeptSessions& sessions, const std::vector<int>& prompt) {
    auto session = sessions.choose(prompt);
    if (!session) return -1;
    const int cached = (*session)->rewind_to(prompt);
    const std::vector<int> rest(prompt.begin() + cached, prompt.end());
    auto& cache = static_cast<test::FakeCache&>((*session)->cache());
    cache.tokens.insert(cache.tokens.end(), rest.begin(), rest.end());
    (*session)->ran(rest);
    EXPECT_EQ(cache.tokens, prompt);
    return cached;
  }
  int made_ = 0, made_max_ = 100;
  MakeCache make_ = [this]() -> Expected<std::unique_ptr<KvCache>> {
    if (made_ == made_max_) return fail(ErrorCode::kHostMemory, "no memory");
    ++made_;
    return std::make_unique<test::FakeCache>(100);
  };
};

TEST_F(Sessions, with_one_cache_every_prompt_uses_it_and_keeps_the_common_part) {
  KeptSessions sessions(1, make_);
  EXPECT_EQ(turn(sessions, {1, 2, 3}), 0);
  EXPECT_EQ(turn(sessions, {1, 2, 3, 4}), 3);
  EXPECT_EQ(turn(sessions, {1, 9}), 1);
  EXPECT_EQ(turn(sessions, {7}), 0);
  EXPECT_EQ(turn(sessions, {7}), 0); // its last token is always left to run
  EXPECT_EQ(made_, 1);
}

TEST_F(Sessions, a_new_chat_gets_a_cache_of_its_own_instead_of_throwing_a_long_one_away) {
  KeptSessions sessions(2, make_);
  turn(sessions, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(turn(sessions, {1, 2, 9}), 0); // shares a system prompt only
  EXPECT_EQ(turn(sessions, {1, 2, 3, 4, 5, 6, 7, 8, 9}), 8);
  EXPECT_EQ(turn(sessions, {1, 2, 9, 10}), 3);
  EXPECT_EQ(sessions.count(), 2);
}

TEST_F(Sessions, when_all_are_taken_the_one_not_used_for_longest_goes) {
  KeptSessions sessions(2, make_);
  turn(sessions, {1, 1, 1});
  turn(sessions, {2, 2, 2});
  turn(sessions, {1, 1, 1, 1});
  EXPECT_EQ(turn(sessions, {3, 3, 3}), 0); // in place of the twos
  EXPECT_EQ(turn(sessions, {1, 1, 1, 1, 1}), 4);
  EXPECT_EQ(turn(sessions, {2, 2, 2}), 0);
}

TEST_F(Sessions, without_memory_for_another_cache_those_that_there_are_go_on) {
  made_max_ = 1;
  KeptSessions sessions(4, make_);
  turn(sessions, {1, 2, 3, 4});
  EXPECT_EQ(turn(sessions, {9, 9}), 0);
  EXPECT_EQ(sessions.count(), 1);
  made_max_ = 0;
  KeptSessions none(1, make_);
  made_ = 0;
  EXPECT_FALSE(none.choose({}));
}

} // namespace
} // namespace ductl::engine
