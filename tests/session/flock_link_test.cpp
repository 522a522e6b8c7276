#include "engine/session/flock_link.hpp"

#include <gmock/gmock.h>

namespace ductl::engine {
namespace {

using testing::HasSubstr;

class CheckHellos : public testing::Test {
protected:
  CheckHellos() {
    serving_.flock = "local";
    serving_.epoch = 3;
    serving_.slices_total = 10;
    serving_.ducks = {{"duck01", 0, 0x7f150165, 1, 2}, {"duck02", 0, 0x7f150166, 1, 2}};
    for (std::uint64_t slices : {6u, 4u}) {
      agent::Hello hello;
      hello.flock = "local";
      hello.protocol = agent::kControlProtocol;
      hello.model_id = "abc";
      hello.epoch = 3;
      hello.slices_active = slices;
      hellos_.push_back(hello);
    }
  }
  Error refused() {
    const auto result = check_hellos(serving_, "abc", hellos_);
    EXPECT_FALSE(result);
    return result ? Error{} : result.error();
  }
  agent::Serving serving_;
  std::vector<agent::Hello> hellos_;
};

TEST_F(CheckHellos, ducks_that_hold_the_whole_model_between_them_are_fine) {
  EXPECT_TRUE(check_hellos(serving_, "abc", hellos_));
}

TEST_F(CheckHellos, slices_that_do_not_add_up_are_refused_with_both_figures) {
  hellos_[1].slices_active = 3;
  const Error error = refused();
  EXPECT_EQ(error.code, ErrorCode::kFlockEpoch);
  EXPECT_THAT(error.message, HasSubstr("add up to 9, the model has 10"));
  EXPECT_THAT(error.next, HasSubstr("ductl up"));
}

TEST_F(CheckHellos, another_epoch_model_or_flock_is_refused_naming_the_duck) {
  hellos_[1].epoch = 2;
  EXPECT_EQ(refused().code, ErrorCode::kFlockEpoch);
  EXPECT_EQ(refused().place, "duck duck02");
  hellos_[1].epoch = 3;
  hellos_[1].model_id = "";
  EXPECT_THAT(refused().message, HasSubstr("holds model none"));
  hellos_[1].model_id = "abc";
  hellos_[0].flock = "other";
  EXPECT_THAT(refused().message, HasSubstr("flock \"other\""));
}

TEST_F(CheckHellos, an_agent_of_another_version_is_refused_with_both_protocols) {
  hellos_[0].protocol = agent::kControlProtocol + 1;
  hellos_[0].version = "9.9";
  const Error error = refused();
  EXPECT_EQ(error.code, ErrorCode::kAgentVersion);
  EXPECT_THAT(error.message, HasSubstr("9.9"));
}

TEST(EngineSettings, what_is_not_built_in_is_refused_by_name) {
  inventory::Engine engine;
  EXPECT_TRUE(check_engine_settings(engine));
  engine.attention = inventory::AttentionKind::Cpu;
  engine.hidden = inventory::HiddenType::Bf16;
  EXPECT_TRUE(check_engine_settings(engine));
  engine.reply = inventory::ReplyType::Compact;
  EXPECT_TRUE(check_engine_settings(engine));
  engine.transport = inventory::TransportKind::Dpdk;
  EXPECT_THAT(check_engine_settings(engine).error().message, HasSubstr("dpdk"));
  engine.attention = inventory::AttentionKind::Cuda;
  EXPECT_THAT(check_engine_settings(engine).error().message, HasSubstr("cuda"));
}

TEST(SessionTag, is_never_zero_and_differs_from_one_to_the_next) {
  const std::uint64_t first = new_session_tag();
  EXPECT_NE(first, 0u);
  EXPECT_NE(new_session_tag(), first);
}

} // namespace
} // namespace ductl::engine
