#include "engine/session/context_length.hpp"

#include "weights/context_length.hpp"

#include "tests/session/fake_model.hpp"

#include <gmock/gmock.h>

namespace ductl::engine {
namespace {

using testing::HasSubstr;

weights::ModelConfig with_positions(int max_position) {
  weights::ModelConfig config = test::small_config();
  config.max_position = max_position;
  return config;
}

TEST(ContextLength, zero_means_the_models_own_but_at_most_8192) {
  EXPECT_EQ(weights::choose_context_length(with_positions(2048), 0).value(), 2048);
  EXPECT_EQ(weights::choose_context_length(with_positions(163840), 0).value(), 8192);
  EXPECT_EQ(weights::choose_context_length(with_positions(163840), 20000).value(), 20000);
}

TEST(ContextLength, more_than_the_model_has_is_refused_with_the_largest_that_goes) {
  const auto result = weights::choose_context_length(with_positions(2048), 2049);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kContextLength);
  EXPECT_THAT(result.error().next, HasSubstr("at most 2048"));
}

TEST(OutputBudget, is_what_was_asked_for_or_all_the_room_there_is) {
  EXPECT_EQ(output_budget({100, 200}, 40, 60).value(), 60);
  EXPECT_EQ(output_budget({100, 200}, 40, 0).value(), 60);
  EXPECT_EQ(output_budget({100, 200}, 99, 1).value(), 1);
}

TEST(OutputBudget, advises_a_longer_context_only_where_the_model_has_one) {
  EXPECT_THAT(output_budget({100, 200}, 100, 0).error().next, HasSubstr("engine.context_length (this model's limit is 200)"));
  EXPECT_THAT(output_budget({100, 200}, 90, 20).error().next, HasSubstr("engine.context_length"));
  EXPECT_THAT(output_budget({200, 200}, 200, 0).error().next, Not(HasSubstr("engine.context_length")));
}

TEST(OutputBudget, too_much_is_refused_with_prompt_answer_sum_and_limit) {
  const auto result = output_budget({100, 200}, 41, 60);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kContextLength);
  for (const char* text : {"41 tokens", "60 more", "101 in all", "holds 100"})
    EXPECT_THAT(result.error().message, HasSubstr(text));
  EXPECT_THAT(result.error().next, HasSubstr("at most 59"));
  EXPECT_FALSE(output_budget({100, 200}, 100, 0));
  EXPECT_THAT(output_budget({100, 200}, 2000000000, 2000000000).error().message, HasSubstr("2000000000 tokens"));
  EXPECT_THAT(output_budget({100, 200}, 50, 2147483647).error().message, HasSubstr("2147483697 in all"));
}

} // namespace
} // namespace ductl::engine
