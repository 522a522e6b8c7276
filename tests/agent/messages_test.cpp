#include "agent/client/control_messages.hpp"
#include "agent/client/slice_frames.hpp"
#include "tests/agent/small_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ductl::agent {
namespace {

using testing::HasSubstr;
using weights::SliceId;

TEST(ControlMessages, AModelComesBackAsItWas) {
  const auto parsed = parse_model(model_text(small_model()));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, small_model());
  StoreModel eight = small_model();
  eight.format = weights::TileFormat::EightBit;
  EXPECT_EQ(*parse_model(model_text(eight)), eight);
}

TEST(ControlMessages, ImpossibleModelsAreRefusedByName) {
  const auto error = [](const char* text) {
    const auto parsed = parse_model(text);
    return parsed ? std::string("accepted") : parsed.error().message;
  };
  EXPECT_THAT(error(""), HasSubstr("not a JSON object"));
  EXPECT_THAT(error("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error("{}"), HasSubstr("'model_id' is missing"));
  EXPECT_THAT(error(R"({"model_id":"","hidden":64,"format":"fp9","experts":[1],"exponent":[[1]]})"),
              HasSubstr("'model_id' is empty"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":65,"format":"fp9","experts":[1],"exponent":[[1]]})"),
              HasSubstr("multiple of 32"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64,"format":"fp8","experts":[1],"exponent":[[1]]})"), HasSubstr("fp9 or e4m3"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64,"experts":[1],"exponent":[[1]]})"), HasSubstr("'format'"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":32800,"experts":[1],"exponent":[[1]]})"), HasSubstr("'hidden'"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":-64,"experts":[1],"exponent":[[1]]})"), HasSubstr("'hidden'"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64.0,"experts":[1],"exponent":[[1]]})"), HasSubstr("'hidden'"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":99999999999999999999,"experts":[1],"exponent":[[1]]})"), HasSubstr("'hidden'"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64,"format":"fp9","experts":[0],"exponent":[[1]]})"), HasSubstr("'experts'"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64,"format":"fp9","experts":[1,1],"exponent":[[1]]})"),
              HasSubstr("one entry a layer"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64,"format":"fp9","experts":[],"exponent":[]})"), HasSubstr("one entry a layer"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64,"format":"fp9","experts":[1],"exponent":[[1,2]]})"),
              HasSubstr("1 integers a layer"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64,"format":"fp9","experts":[1],"exponent":[[300]]})"), HasSubstr("-126..127"));
  EXPECT_THAT(error(R"({"model_id":"a","hidden":64,"format":"fp9","experts":[1],"exponent":[[[[[[1]]]]]]})"),
              HasSubstr("too deep"));
}

TEST(ControlMessages, EndlessNestingIsCutOff) {
  EXPECT_FALSE(parse_ids(R"({"slices":)" + std::string(1'000'000, '[')));
  EXPECT_FALSE(parse_ids(R"({"slices":)" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}"));
}

TEST(ControlMessages, IdsEpochsAndSessionsComeBackAsTheyWere) {
  const std::vector<SliceId> ids = {{0, 0, 0}, {60, 256, 127}, {65535, 65535, 65535}};
  EXPECT_EQ(*parse_ids(ids_text(ids)), ids);
  EXPECT_EQ(*parse_ids(ids_text({})), std::vector<SliceId>{});
  const auto epoch = parse_epoch(epoch_text(0xffffffff, ids));
  EXPECT_EQ(epoch->epoch, 0xffffffffu);
  EXPECT_EQ(epoch->ids, ids);
  const auto session = parse_session(session_text({0xfedcba9876543210, 3, 31, true, true}));
  EXPECT_EQ(session->tag, 0xfedcba9876543210u);
  EXPECT_EQ(session->epoch, 3u);
  EXPECT_EQ(session->duck, 31);
  EXPECT_TRUE(session->bf16_hidden);
  EXPECT_TRUE(session->compact_reply);
  EXPECT_FALSE(parse_session(session_text({1, 1, 0, true, false}))->compact_reply);
}

TEST(ControlMessages, BadIdsEpochsAndSessionsAreRefused) {
  for (const char* text : {R"({"slices":[[1,2]]})", R"({"slices":[[1,2,3,4]]})", R"({"slices":[[1,2,65536]]})",
                           R"({"slices":[[1,2,-1]]})", R"({"slices":[1]})", R"({"slices":{}})", R"({"slice":[]})"})
    EXPECT_FALSE(parse_ids(text)) << text;
  EXPECT_FALSE(parse_epoch(R"({"epoch":0,"slices":[]})"));
  EXPECT_FALSE(parse_epoch(R"({"epoch":4294967296,"slices":[]})"));
  EXPECT_FALSE(parse_session(R"({"tag":"0000000000000000","epoch":1,"duck":0,"bf16_hidden":false,"compact_reply":false})"))
      << "no tag";
  EXPECT_FALSE(parse_session(R"({"tag":"12","epoch":1,"duck":0,"bf16_hidden":false,"compact_reply":false})"));
  EXPECT_FALSE(parse_session(R"({"tag":"00000000000000zz","epoch":1,"duck":0,"bf16_hidden":false,"compact_reply":false})"));
  EXPECT_FALSE(parse_session(R"({"tag":"0000000000000001","epoch":1,"duck":0,"bf16_hidden":1,"compact_reply":false})"));
}

TEST(ControlMessages, AnswersComeBackAsTheyWere) {
  Hello hello;
  hello.protocol = kControlProtocol;
  hello.name = "duck1";
  hello.memory_bytes = 32ull << 30;
  hello.session_tag = 0xffffffffffffffff;
  hello.data_port = 65535;
  const auto parsed = parse_hello(hello_text(hello));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->name, "duck1");
  EXPECT_EQ(parsed->memory_bytes, 32ull << 30);
  EXPECT_EQ(parsed->session_tag, 0xffffffffffffffffu);
  EXPECT_EQ(parsed->data_port, 65535);
  AgentStats stats;
  stats.rounds = ~0ull;
  stats.compute_ns = 5;
  EXPECT_EQ(parse_stats(stats_text(stats))->rounds, ~0ull);
  EXPECT_EQ(parse_stats(stats_text(stats))->compute_ns, 5u);
  const std::vector<weights::SliceDigest> digests = {0, 1, ~0ull};
  EXPECT_EQ(*parse_digests(digests_text(digests)), digests);
  const std::vector<weights::HeldSlice> held = {{{4, 1, 2}, 77}, {{4, 3, 0}, ~0ull}};
  const auto held_back = parse_held(held_text(held), 4);
  ASSERT_EQ(held_back->size(), 2u);
  EXPECT_EQ((*held_back)[1].id, held[1].id);
  EXPECT_EQ((*held_back)[1].digest, ~0ull);
}

TEST(ControlMessages, AnotherProtocolIsToldApartBeforeAnythingElse) {
  const auto parsed = parse_hello(R"({"protocol":2,"version":"9.9.9","no":"other field"})");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::kAgentVersion);
  EXPECT_THAT(parsed.error().message, HasSubstr("9.9.9"));
}

TEST(ControlMessages, ErrorsCarryWhatAPersonReads) {
  const auto parsed = parse_error(error_text({ErrorCode::kAgentVersion, "other \xff version", "duck1", "update", {}}));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->code, ErrorCode::kAgentVersion);
  EXPECT_EQ(parsed->place, "duck1");
  EXPECT_EQ(parsed->next, "update");
  EXPECT_FALSE(parse_error("<html>"));
  EXPECT_FALSE(parse_error(R"({"error":"text"})"));
}

TEST(SliceFrames, ComeBackAsTheyWere) {
  const SmallSlice a({0, 0, 3}), b({1, 2, 0});
  const std::vector<OutgoingSlice> out = {a.outgoing(), b.outgoing()};
  const std::string body = slice_frames(out);
  const auto parsed = parse_slice_frames(std::as_bytes(std::span(body)), a.bytes.size());
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[1].id, b.id);
  EXPECT_EQ((*parsed)[1].digest, b.digest);
  EXPECT_TRUE(std::equal(b.bytes.begin(), b.bytes.end(), (*parsed)[1].bytes.begin(), (*parsed)[1].bytes.end()));
}

TEST(SliceFrames, EveryCutAndEveryChangedHeadIsRefused) {
  const SmallSlice slice({0, 0, 3});
  const std::vector<OutgoingSlice> out = {slice.outgoing()};
  const std::string body = slice_frames(out);
  const std::size_t bytes = slice.bytes.size();
  const auto accepted = [bytes](const std::string& text) {
    return parse_slice_frames(std::as_bytes(std::span(text)), bytes).has_value();
  };
  ASSERT_TRUE(accepted(body));
  for (std::size_t cut = 0; cut < body.size(); ++cut) ASSERT_FALSE(accepted(body.substr(0, cut))) << cut;
  EXPECT_FALSE(accepted(body + "x"));
  for (std::size_t at = 0; at < 16; ++at) { // magic, count, bytes, zero
    std::string changed = body;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_FALSE(accepted(changed)) << at;
  }
  std::string huge = body;
  huge[4] = huge[5] = huge[6] = huge[7] = '\xff';
  EXPECT_FALSE(accepted(huge));
  EXPECT_FALSE(parse_slice_frames(std::as_bytes(std::span(body)), bytes + 64)) << "another model's";
}

} // namespace
} // namespace ductl::agent
