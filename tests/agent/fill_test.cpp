// Filling real agents from a checkpoint: only what is missing is sent.
#include "agent/client/fill.hpp"

#include "tests/agent/agent_process.hpp"

#include <gtest/gtest.h>

namespace ductl::agent {
namespace {

template <class T> T must(Expected<T> value) {
  if (!value) throw std::runtime_error(value.error().text());
  return std::move(*value);
}
void must(const Expected<void>& done) {
  if (!done) throw std::runtime_error(done.error().text());
}

class Fill : public testing::Test {
protected:
  Fill() {
    test::TinyModel tiny;
    tiny.model_type = "qwen3_moe";
    test::write_tiny_checkpoint(tiny, folder_.path());
    checkpoint_ = must(weights::open_checkpoint(folder_.path()));
    manifest_ = must(weights::make_manifest(*checkpoint_, weights::TileFormat::NineBit, 1));
    placement_ = place({"duck1", "duck2"}, nullptr);
  }
  weights::Placement place(const std::vector<std::string>& names, const weights::Placement* previous) {
    std::vector<weights::PlacementDuck> ducks;
    for (const std::string& name : names) ducks.push_back({.name = name});
    return must(weights::place_slices(checkpoint_->config(), manifest_.model_id, ducks, previous));
  }
  FillPlan plan(ControlClient& client, int duck) {
    return must(plan_fill(client, must(client.hello()), manifest_, placement_, duck));
  }
  void fill(ControlClient& client, const FillPlan& plan, int duck) {
    FillProgress last;
    must(fill_duck(client, plan, *checkpoint_, manifest_, placement_, duck, [&](const FillProgress& progress) {
      EXPECT_GE(progress.bytes_sent, last.bytes_sent);
      last = progress;
    }));
    EXPECT_EQ(last.bytes_sent, plan.send_bytes);
    EXPECT_EQ(static_cast<std::size_t>(last.slices_sent), plan.send.size());
  }

  test::TempFolder folder_;
  std::unique_ptr<weights::Checkpoint> checkpoint_;
  weights::Manifest manifest_;
  weights::Placement placement_;
};

TEST_F(Fill, ToldToStopItSendsNoMoreAndActivatesNothing) {
  const AgentProcess agent;
  ControlClient client = agent.client();
  const auto filled = fill_duck(client, plan(client, 0), *checkpoint_, manifest_, placement_, 0, {}, [] { return true; });
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(must(client.hello()).slices_held, 0u);
  EXPECT_EQ(must(client.hello()).epoch, 0u);
  fill(client, plan(client, 0), 0);
}

TEST_F(Fill, AFreshDuckGetsItsShareAndThenNothingMore) {
  const AgentProcess first, second({.name = "duck2", .address = "127.21.9.102"});
  ControlClient clients[] = {first.client(), second.client()};
  std::size_t sent = 0;
  for (int duck = 0; duck < 2; ++duck) {
    const FillPlan before = plan(clients[duck], duck);
    EXPECT_TRUE(before.set_model);
    EXPECT_TRUE(before.activate);
    EXPECT_EQ(before.send, placement_.slices_of(duck));
    fill(clients[duck], before, duck);
    sent += before.send.size();
    EXPECT_TRUE(plan(clients[duck], duck).empty());
    const Hello hello = must(clients[duck].hello());
    EXPECT_EQ(hello.epoch, placement_.epoch);
    EXPECT_EQ(hello.slices_active, before.send.size());
  }
  EXPECT_EQ(sent, weights::slice_count(checkpoint_->config()));
}

TEST_F(Fill, OnlyWhatIsMissingIsSentAgain) {
  const AgentProcess agent;
  ControlClient client = agent.client();
  fill(client, plan(client, 0), 0);
  const std::vector<weights::SliceId> all = placement_.slices_of(0), lost = {all[1], all[all.size() - 1]};
  must(client.drop(lost));
  const FillPlan repair = plan(client, 0);
  EXPECT_FALSE(repair.set_model);
  EXPECT_EQ(repair.send, lost);
  EXPECT_TRUE(repair.drop.empty());
  EXPECT_TRUE(repair.activate);
  fill(client, repair, 0);
  EXPECT_TRUE(plan(client, 0).empty());
}

TEST_F(Fill, ASliceWithOtherBytesIsReplaced) {
  const AgentProcess agent;
  ControlClient client = agent.client();
  fill(client, plan(client, 0), 0);
  const weights::SliceId id = placement_.slices_of(0)[0];
  manifest_.layers[id.layer].digest[id.expert][id.index] ^= 1; // as if it should be another
  const FillPlan repair = plan(client, 0);
  EXPECT_EQ(repair.send, std::vector<weights::SliceId>{id});
  const auto filled = fill_duck(client, repair, *checkpoint_, manifest_, placement_, 0, {});
  ASSERT_FALSE(filled) << "what is packed is not what the manifest promises";
  EXPECT_EQ(filled.error().code, ErrorCode::kAgentRefused);
}

TEST_F(Fill, ANewPlacementMovesOnlyTheDifference) {
  const AgentProcess agent;
  ControlClient client = agent.client();
  fill(client, plan(client, 0), 0);
  const auto before = placement_.slices_of(0);
  const weights::Placement old = placement_;
  placement_ = place({"duck1", "duck2", "duck3"}, &old);
  const FillPlan shrink = plan(client, 0);
  EXPECT_TRUE(shrink.send.empty()) << "a third duck takes from the others only";
  EXPECT_FALSE(shrink.drop.empty());
  EXPECT_TRUE(shrink.activate);
  must(fill_duck(client, shrink, *checkpoint_, manifest_, placement_, 0, {}));
  const Hello hello = must(client.hello());
  EXPECT_EQ(hello.epoch, placement_.epoch);
  EXPECT_EQ(hello.slices_held, before.size() - shrink.drop.size());
  EXPECT_TRUE(plan(client, 0).empty());
}

TEST_F(Fill, AnotherModelReplacesTheFirst) {
  const AgentProcess agent;
  ControlClient client = agent.client();
  fill(client, plan(client, 0), 0);
  manifest_.model_id = placement_.model_id = "another";
  const FillPlan other = plan(client, 0);
  EXPECT_TRUE(other.set_model);
  EXPECT_EQ(other.send, placement_.slices_of(0));
  fill(client, other, 0);
  EXPECT_EQ(must(client.hello()).model_id, "another");
  EXPECT_TRUE(plan(client, 0).empty());
}

TEST_F(Fill, ADuckThatDiesMidwayIsNamed) {
  AgentProcess agent;
  ControlClient client = agent.client();
  const FillPlan before = plan(client, 0);
  agent.signal(9);
  ASSERT_TRUE(agent.wait(std::chrono::seconds(5)));
  const auto filled = fill_duck(client, before, *checkpoint_, manifest_, placement_, 0, {});
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, ErrorCode::kAgentUnreachable);
  EXPECT_NE(filled.error().message.find("duck1"), std::string::npos);
}

} // namespace
} // namespace ductl::agent
