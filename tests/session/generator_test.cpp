#include "engine/session/generator.hpp"

#include "engine/lanes/forward.hpp"
#include "tests/session/fake_model.hpp"

#include <gmock/gmock.h>
#include <numeric>

namespace ductl::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Tokens 0..31; piece of token n is "<n>" unless a test says otherwise. Token 31 of the model is not in the tokenizer.
class GeneratorTest : public testing::Test {
protected:
  GeneratorTest() {
    for (int i = 0; i < 31; ++i) tokenizer_.pieces.push_back("<" + std::to_string(i) + ">");
    options_.model_name = "fake";
    options_.context_length = 100;
  }
  Generator& generator() {
    if (!generator_) {
      auto made = make_generator(forward_, tokenizer_, chat_format_, config_, options_);
      EXPECT_TRUE(made) << (made ? "" : made.error().text());
      generator_ = std::move(*made);
    }
    return *generator_;
  }
  // Answers the tokens of `answer`, one after the other, to a prompt of `prompt_tokens`; after the last it repeats it.
  void answer_with(std::vector<int> answer, std::size_t prompt_tokens) {
    backend_.next = [answer, prompt_tokens](std::span<const int> history) {
      return answer[std::min(history.size() - prompt_tokens, answer.size() - 1)];
    };
  }
  GenerateResult generate(const GenerateRequest& request) {
    GenerateCallbacks callbacks;
    callbacks.on_text = [this](std::string_view text) { shown_.emplace_back(text); };
    auto result = generator().generate(request, callbacks);
    EXPECT_TRUE(result) << (result ? "" : result.error().text());
    return result.value_or(GenerateResult{});
  }
  Error failing(const GenerateRequest& request) {
    auto result = generator().generate(request, {});
    EXPECT_FALSE(result);
    return result ? Error{} : result.error();
  }

  weights::ModelConfig config_ = test::small_config();
  test::FakeBackend backend_{config_, 4};
  test::FakeFfn ffn_;
  test::FakeTokenizer tokenizer_;
  test::FakeChatFormat chat_format_;
  Router router_{config_, {{}, {}}};
  Forward forward_{backend_, ffn_, router_, config_};
  GeneratorOptions options_;
  std::unique_ptr<Generator> generator_;
  std::vector<std::string> shown_;
};

GenerateRequest request_of(std::vector<int> prompt, int output_tokens_max = 0) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.output_tokens_max = output_tokens_max;
  return request;
}

TEST_F(GeneratorTest, a_prompt_is_prefilled_in_batches_and_answered_token_by_token_up_to_the_limit) {
  answer_with({11, 12, 13}, 6);
  const GenerateResult result = generate(request_of({1, 2, 3, 4, 5, 6}, 3));
  EXPECT_EQ(result.finish, FinishReason::Length);
  EXPECT_THAT(result.tokens, ElementsAre(11, 12, 13));
  EXPECT_EQ(result.text, "<11><12><13>");
  EXPECT_THAT(shown_, ElementsAre("<11>", "<12>", "<13>"));
  EXPECT_THAT(backend_.batches, ElementsAre(4, 2, 1, 1)); // the last token is not run: nobody wants what comes after it
  EXPECT_EQ(result.stats.input_tokens, 6);
  EXPECT_EQ(result.stats.cached_tokens, 0);
  EXPECT_EQ(result.stats.output_tokens, 3);
  EXPECT_GE(result.stats.total_s, result.stats.ttft_s);
}

TEST_F(GeneratorTest, a_stop_token_ends_the_answer_and_shows_no_text) {
  answer_with({11, 9, 12}, 2);
  GenerateRequest request = request_of({1, 2});
  request.stop_tokens = {8, 9};
  const GenerateResult result = generate(request);
  EXPECT_EQ(result.finish, FinishReason::Stop);
  EXPECT_EQ(result.text, "<11>");
  EXPECT_THAT(result.tokens, ElementsAre(11, 9));
}

TEST_F(GeneratorTest, a_stop_string_over_several_tokens_is_found_and_never_shown) {
  tokenizer_.pieces[11] = "hello E";
  tokenizer_.pieces[12] = "N";
  tokenizer_.pieces[13] = "D of it";
  answer_with({11, 12, 13, 14}, 1);
  GenerateRequest request = request_of({1});
  request.stop = {"END"};
  const GenerateResult result = generate(request);
  EXPECT_EQ(result.finish, FinishReason::Stop);
  EXPECT_EQ(result.text, "hello ");
  EXPECT_THAT(shown_, ElementsAre("hello "));
  EXPECT_EQ(result.tokens.size(), 3u);
}

TEST_F(GeneratorTest, text_held_back_for_a_stop_string_that_does_not_come_is_shown_at_the_end) {
  tokenizer_.pieces[11] = "EN";
  answer_with({11}, 1);
  GenerateRequest request = request_of({1}, 1);
  request.stop = {"END"};
  EXPECT_EQ(generate(request).text, "EN");
}

TEST_F(GeneratorTest, a_character_over_two_tokens_is_shown_whole) {
  tokenizer_.pieces[11] = "\xF0\x9F\x99";
  tokenizer_.pieces[12] = "\x82!";
  answer_with({11, 12}, 1);
  EXPECT_EQ(generate(request_of({1}, 2)).text, "\xF0\x9F\x99\x82!");
  EXPECT_THAT(shown_, ElementsAre("\xF0\x9F\x99\x82!"));
}

TEST_F(GeneratorTest, a_special_token_in_the_middle_of_an_answer_is_no_text) {
  tokenizer_.special = 12;
  answer_with({11, 12, 13}, 1);
  EXPECT_EQ(generate(request_of({1}, 3)).text, "<11><13>");
}

TEST_F(GeneratorTest, padding_rows_of_the_head_are_never_sampled) {
  backend_.next = [](std::span<const int>) { return 31; };
  EXPECT_LT(generate(request_of({1}, 1)).tokens.front(), 31);
}

TEST_F(GeneratorTest, the_next_turn_of_a_chat_goes_on_from_the_cache) {
  answer_with({11, 12}, 3);
  generate(request_of({1, 2, 3}, 2)); // cached: 1 2 3 11
  backend_.batches.clear();
  answer_with({13}, 6);
  const GenerateResult result = generate(request_of({1, 2, 3, 11, 12, 4}, 1));
  EXPECT_EQ(result.stats.cached_tokens, 4);
  EXPECT_THAT(backend_.batches, ElementsAre(2));
  EXPECT_THAT(result.tokens, ElementsAre(13));
}

TEST_F(GeneratorTest, a_prompt_that_departs_from_the_cache_is_rolled_back_to_the_common_part) {
  backend_.next = [](std::span<const int> history) { return std::accumulate(history.begin(), history.end(), 0) % 29; };
  generate(request_of({1, 2, 3, 4, 5}, 3));
  const GenerateResult rolled_back = generate(request_of({1, 2, 3, 7}, 3));
  EXPECT_EQ(rolled_back.stats.cached_tokens, 3);
  generator_.reset(); // nothing cached
  EXPECT_EQ(generate(request_of({1, 2, 3, 7}, 3)).tokens, rolled_back.tokens);
}

TEST_F(GeneratorTest, the_same_prompt_again_runs_its_last_token_only) {
  generate(request_of({1, 2, 3, 4, 5, 6}, 1));
  backend_.batches.clear();
  const GenerateResult again = generate(request_of({1, 2, 3, 4, 5, 6}, 1));
  EXPECT_EQ(again.stats.cached_tokens, 5);
  EXPECT_THAT(backend_.batches, ElementsAre(1));
}

TEST_F(GeneratorTest, two_chats_in_turn_keep_a_cache_each_when_two_may_be_kept) {
  options_.sessions_max = 2;
  generate(request_of({1, 2, 3, 4}, 1));
  generate(request_of({5, 6, 7, 8}, 1));
  EXPECT_EQ(generate(request_of({1, 2, 3, 4, 9}, 1)).stats.cached_tokens, 4);
  EXPECT_EQ(generate(request_of({5, 6, 7, 8, 9}, 1)).stats.cached_tokens, 4);
}

TEST_F(GeneratorTest, cancelling_in_prefill_stops_between_two_batches_and_keeps_what_was_run) {
  GenerateCallbacks callbacks;
  callbacks.cancelled = [&] { return !backend_.batches.empty(); };
  const auto result = generator().generate(request_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5), callbacks);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->finish, FinishReason::Cancelled);
  EXPECT_TRUE(result->tokens.empty());
  EXPECT_THAT(backend_.batches, ElementsAre(4));
  EXPECT_EQ(generate(request_of({1, 2, 3, 4, 5, 6}, 1)).stats.cached_tokens, 4);
}

TEST_F(GeneratorTest, cancelling_in_the_answer_ends_it_before_the_next_token) {
  int shown = 0;
  GenerateCallbacks callbacks;
  callbacks.on_text = [&](std::string_view) { ++shown; };
  callbacks.cancelled = [&] { return shown >= 2; };
  const auto result = generator().generate(request_of({1}, 50), callbacks);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->finish, FinishReason::Cancelled);
  EXPECT_EQ(result->tokens.size(), 2u);
}

TEST_F(GeneratorTest, a_duck_that_dies_breaks_the_generator_and_the_cache_stays_consistent) {
  ffn_.fails_at = 3; // layer 1 of the second batch
  const Error error = failing(request_of({1, 2, 3, 4, 5, 6}, 3));
  EXPECT_EQ(error.code, ErrorCode::kDuckDied);
  EXPECT_THAT(error.message, HasSubstr("duck03"));
  ASSERT_TRUE(generator().broken());
  EXPECT_EQ(generator().broken()->message, error.message);
  const int starts = ffn_.starts;
  EXPECT_EQ(failing(request_of({1})).code, ErrorCode::kDuckDied);
  EXPECT_EQ(ffn_.starts, starts); // at once, no round was tried
}

TEST_F(GeneratorTest, an_error_of_one_request_does_not_break_the_generator) {
  ffn_.fails_at = 3;
  ffn_.error = {ErrorCode::kSumOverflow, "beyond the last rung", "", "", {}};
  EXPECT_EQ(failing(request_of({1, 2, 3, 4, 5, 6}, 3)).code, ErrorCode::kSumOverflow);
  EXPECT_FALSE(generator().broken());
  EXPECT_EQ(generate(request_of({1, 2, 3, 4, 5, 6}, 1)).stats.cached_tokens, 4); // the first batch stands
}

TEST_F(GeneratorTest, a_prompt_beyond_the_context_is_refused_with_every_figure) {
  const Error error = failing(request_of(std::vector<int>(100, 1)));
  EXPECT_EQ(error.code, ErrorCode::kContextLength);
  EXPECT_THAT(error.message, HasSubstr("100 tokens"));
  EXPECT_THAT(error.next, HasSubstr("engine.context_length"));
  EXPECT_TRUE(backend_.batches.empty());
}

TEST_F(GeneratorTest, an_answer_fills_the_context_to_the_last_token_and_no_further) {
  const GenerateResult result = generate(request_of(std::vector<int>(95, 1)));
  EXPECT_EQ(result.finish, FinishReason::Length);
  EXPECT_EQ(result.tokens.size(), 5u);
}

TEST_F(GeneratorTest, a_request_that_names_no_limit_gets_the_flocks) {
  options_.output_tokens_max = 7;
  EXPECT_EQ(generate(request_of({1})).tokens.size(), 7u);
  EXPECT_EQ(generate(request_of({1}, 9)).tokens.size(), 9u);
}

TEST_F(GeneratorTest, requests_that_make_no_sense_are_refused) {
  EXPECT_EQ(failing(request_of({})).code, ErrorCode::kRequestValue);
  EXPECT_THAT(failing(request_of({1, 32})).message, HasSubstr("token 32 is outside the vocabulary of 32"));
  EXPECT_EQ(failing(request_of({-1})).code, ErrorCode::kRequestValue);
  GenerateRequest hot = request_of({1});
  hot.sampling.temperature = -1;
  EXPECT_EQ(failing(hot).code, ErrorCode::kRequestValue);
}

TEST_F(GeneratorTest, times_of_every_token_are_kept_when_asked_for) {
  GenerateRequest request = request_of({1, 2, 3, 4, 5}, 2);
  EXPECT_TRUE(generate(request).stats.tokens.empty());
  request.prompt = {9, 8, 7, 6, 5};
  request.token_times = true;
  const GenerateResult result = generate(request);
  ASSERT_EQ(result.stats.tokens.size(), 2u);
  EXPECT_EQ(result.stats.tokens[0].position, 5);
  EXPECT_EQ(result.stats.tokens[0].rounds.wait_ns, 20 * 2 * 2); // two batches of two layers
  EXPECT_EQ(result.stats.tokens[1].position, 6);
  EXPECT_EQ(result.stats.tokens[1].rounds.wait_ns, 20 * 2);
  EXPECT_EQ(result.stats.tokens[1].rounds.reduce_ns, 50000 * 2);
}

// A model whose next token depends on all before, and an MTP layer that is right except behind every third position.
class SpeculationTest : public GeneratorTest {
protected:
  SpeculationTest() {
    backend_.next = [](std::span<const int> history) {
      int sum = 7;
      for (const int token : history) sum = (sum * 5 + token) % 29;
      return sum;
    };
    backend_.guess = [this](std::span<const int> history) {
      const int right = backend_.next(history);
      return history.size() % 3 == 0 ? (right + 1) % 29 : right;
    };
    config_.mtp_layers = 1;
  }
  GenerateResult without_speculation(const GenerateRequest& request) {
    generator_.reset();
    options_.speculate = false;
    GenerateResult result = generate(request);
    EXPECT_EQ(result.stats.drafted_tokens, 0);
    generator_.reset();
    options_.speculate = true;
    return result;
  }
};

TEST_F(SpeculationTest, the_tokens_are_those_without_it_and_right_guesses_come_two_a_batch) {
  for (const int length : {1, 2, 3, 4, 7, 20, 50}) {
    const GenerateRequest request = request_of({1, 2, 3, 4, 5, 6}, length);
    const std::vector<int> expected = without_speculation(request).tokens;
    backend_.batches.clear();
    const GenerateResult result = generate(request);
    EXPECT_EQ(result.tokens, expected) << length;
    EXPECT_EQ(static_cast<int>(backend_.batches.size()), 2 + length - 1 - result.stats.accepted_tokens) << length;
    EXPECT_EQ(result.stats.drafted_tokens > 0, length > 2) << length;
  }
}

TEST_F(SpeculationTest, guesses_are_counted_and_their_tokens_marked) {
  GenerateRequest request = request_of({1, 2, 3, 4}, 12); // chosen: position 4, 5, ...; the guess behind position 5 is wrong, ...
  request.token_times = true;
  const GenerateResult result = generate(request);
  int marked = 0;
  for (const TokenTimes& token : result.stats.tokens) marked += token.accepted ? 1 : 0;
  EXPECT_EQ(marked, result.stats.accepted_tokens);
  EXPECT_GT(result.stats.accepted_tokens, 3);
  EXPECT_LT(result.stats.accepted_tokens, result.stats.drafted_tokens);
}

TEST_F(SpeculationTest, a_sampled_answer_is_the_same_too) {
  GenerateRequest request = request_of({1, 2, 3}, 40);
  request.sampling.temperature = 8; // 10 / 8: about one token in ten is the likeliest
  request.sampling.seed = 3;
  const GenerateResult plain = without_speculation(request);
  EXPECT_EQ(generate(request).tokens, plain.tokens);
}

TEST_F(SpeculationTest, the_next_turn_goes_on_with_an_mtp_layer_that_has_no_holes) { // which the backend checks
  generate(request_of({1, 2, 3}, 9));
  const std::vector<int> next = {1, 2, 3, 9, 9, 9, 9};
  const GenerateResult departed = generate(request_of(next, 8));
  EXPECT_EQ(departed.stats.cached_tokens, 2); // the third's row belongs to the token behind it
  EXPECT_EQ(departed.tokens, without_speculation(request_of(next, 8)).tokens);
  EXPECT_EQ(generate(request_of({5}, 8)).tokens, without_speculation(request_of({5}, 8)).tokens);
}

TEST_F(SpeculationTest, it_stops_where_the_answer_does) {
  GenerateRequest request = request_of({1, 2, 3, 4}, 30);
  const std::vector<int> all = without_speculation(request).tokens;
  for (std::size_t stop = 0; stop < 12; ++stop) {
    request.stop_tokens = {all[stop]};
    const auto first = std::find(all.begin(), all.end(), all[stop]);
    EXPECT_EQ(generate(request).tokens, std::vector<int>(all.begin(), first + 1)) << stop;
  }
}

TEST_F(SpeculationTest, a_full_context_leaves_no_room_for_guesses) {
  const GenerateRequest request = request_of(std::vector<int>(90, 1));
  const std::vector<int> expected = without_speculation(request).tokens;
  EXPECT_EQ(expected.size(), 10u);
  EXPECT_EQ(generate(request).tokens, expected);
}

TEST_F(SpeculationTest, sums_beyond_every_scale_behind_a_guess_cost_no_answer) {
  const GenerateRequest request = request_of({1, 2, 3, 4, 5, 6}, 9);
  const std::vector<int> expected = without_speculation(request).tokens;
  ffn_.error = {ErrorCode::kSumOverflow, "beyond the last rung", "", "", {}};
  int failed = 0;
  for (int fails_at = 0; fails_at < 20; ++fails_at) {
    generator_.reset();
    ffn_.fails_at = ffn_.starts + fails_at;
    const auto result = generator().generate(request, {});
    failed += result ? 0 : 1;
    EXPECT_EQ(result ? result->tokens : expected, expected) << fails_at;
  }
  EXPECT_EQ(failed, 4); // the prompt's two batches of two layers
}

TEST_F(SpeculationTest, a_flock_that_takes_a_token_a_round_gets_no_guesses) {
  test::FakeBackend narrow(config_, 1);
  narrow.next = backend_.next;
  narrow.guess = backend_.guess;
  Forward forward(narrow, ffn_, router_, config_);
  const auto generator = make_generator(forward, tokenizer_, chat_format_, config_, options_);
  ASSERT_TRUE(generator);
  const GenerateRequest request = request_of({1, 2, 3}, 9);
  const auto result = (*generator)->generate(request, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->tokens, without_speculation(request).tokens);
  EXPECT_EQ(result->stats.drafted_tokens, 0);
}

TEST_F(SpeculationTest, a_round_that_fails_leaves_what_can_be_gone_on_from) {
  const GenerateRequest request = request_of({1, 2, 3, 4, 5, 6}, 9);
  const std::vector<int> expected = without_speculation(request).tokens;
  ffn_.error = {ErrorCode::kInternal, "no buffer", "", "", {}};
  for (int fails_at = 0;; ++fails_at) {
    ffn_.fails_at = ffn_.starts + fails_at;
    const auto result = generator().generate(request, {});
    ffn_.fails_at = -1;
    EXPECT_EQ(generate(request).tokens, expected) << fails_at;
    if (!result) continue;
    EXPECT_GT(fails_at, 10); // every round of it has failed once
    break;
  }
}

TEST_F(GeneratorTest, a_lack_of_memory_for_the_first_cache_shows_at_the_start) {
  backend_.caches_left = 0;
  const auto made = make_generator(forward_, tokenizer_, chat_format_, config_, options_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kHostMemory);
}

} // namespace
} // namespace ductl::engine
