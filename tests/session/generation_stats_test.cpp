#include "engine/stats/generation_stats.hpp"

#include <gtest/gtest.h>

namespace ductl::engine {
namespace {

TEST(GenerationStats, rates_come_from_the_times_of_first_and_further_tokens) {
  GenerationStats s;
  s.input_tokens = 12;
  s.cached_tokens = 2;
  s.output_tokens = 5;
  s.ttft_s = 0.5;
  s.total_s = 1.5;
  EXPECT_DOUBLE_EQ(s.tpot_s(), 0.25);
  EXPECT_DOUBLE_EQ(s.prefill_tokens_per_s(), 20);
  EXPECT_DOUBLE_EQ(s.decode_tokens_per_s(), 4);
  EXPECT_EQ(s.line(), "time 1.50s  input_len 12  output_len 5  ttft 0.50s  tpot 250.0ms  prefill 20.0 tok/s  decode 4.0 tok/s");
}

TEST(GenerationStats, an_answer_of_one_token_or_none_has_no_rate_and_divides_by_nothing) {
  GenerationStats s;
  EXPECT_EQ(s.decode_tokens_per_s(), 0);
  EXPECT_EQ(s.prefill_tokens_per_s(), 0);
  s.output_tokens = 1;
  s.ttft_s = s.total_s = 1;
  EXPECT_EQ(s.tpot_s(), 0);
}

TEST(GenerationStats, acceptance_is_told_where_there_were_drafts) {
  GenerationStats s;
  s.drafted_tokens = 8;
  s.accepted_tokens = 6;
  EXPECT_DOUBLE_EQ(s.acceptance(), 0.75);
  EXPECT_TRUE(s.line().ends_with("decode 0.0 tok/s  accepted 6 of 8 (75.0 %)")) << s.line();
  EXPECT_EQ(GenerationStats().line().find("accepted"), std::string::npos);
}

TEST(GenerationStats, csv_has_a_header_and_a_row_a_token) {
  GenerationStats s;
  s.tokens = {{7, 42, 1000, {1, 2, 3, 4, 5}}, {8, 43, 2000, {6, 7, 8, 9, 10}, true}};
  EXPECT_EQ(s.csv(), "position,token,total_ns,send_ns,wait_ns,compute_ns,fetch_ns,reduce_ns,accepted\n"
                     "7,42,1000,1,2,3,4,5,0\n8,43,2000,6,7,8,9,10,1\n");
}

} // namespace
} // namespace ductl::engine
