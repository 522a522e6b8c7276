// Settings that change how a flock computes, and what they promise about its answers.
#include "tests/end_to_end/tiny_flock.hpp"
#include "weights/slice.hpp"

#include <gmock/gmock.h>

namespace ductl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Settings : ::testing::Test {
  TinyFlock flock;
  std::filesystem::path inventory = flock.folder() / "flock.toml";

  // `ductl up`, which must have something to do, and what it sent.
  std::uint64_t sent_by_up() {
    const auto up = flock.json({"up", "-o", "json"});
    EXPECT_EQ(up.at("changed"), true);
    return up.at("bytes_sent").get<std::uint64_t>();
  }
  nlohmann::json answer() { return flock.json({"run", "--temperature", "0", "--max-tokens", "40", "-o", "json", "hello"}); }
  static std::uint64_t model_bytes(weights::TileFormat format) {
    return kTinyLayers * kTinySlicesEach * weights::slice_layout(TinyModel{}.hidden, format).bytes;
  }
};

TEST_F(Settings, AnFp8CheckpointGivesTheSameTextInEitherFormat) {
  std::filesystem::remove_all(flock.model());
  write_tiny_model(flock.model(), 3, TinyType::F8);
  EXPECT_THAT(flock.ductl({"plan"}).out, HasSubstr("of e4m3)"));
  EXPECT_EQ(sent_by_up(), model_bytes(weights::TileFormat::EightBit)) << "auto is e4m3 for fp8";
  for (const auto& duck : flock.json({"status", "-o", "json"}).at("ducks")) EXPECT_EQ(duck.at("format"), "e4m3");
  EXPECT_THAT(flock.ductl({"status", "-o", "wide"}).out, AllOf(HasSubstr("FORMAT"), HasSubstr("e4m3")));
  const auto first = answer();

  replace_in(inventory, "[model]", "[model]\nformat = \"fp9\"");
  EXPECT_EQ(sent_by_up(), model_bytes(weights::TileFormat::NineBit)) << "another form is another set of slices";
  for (const auto& duck : flock.json({"status", "-o", "json"}).at("ducks")) EXPECT_EQ(duck.at("format"), "fp9");
  EXPECT_EQ(answer().at("answer"), first.at("answer"));
}

TEST_F(Settings, ABf16CheckpointIsStoredAsFp9) {
  EXPECT_EQ(sent_by_up(), model_bytes(weights::TileFormat::NineBit));
  EXPECT_EQ(flock.json({"status", "-o", "json"}).at("ducks").at(0).at("format"), "fp9");
}

TEST_F(Settings, SeveralThreadsADuckGiveTheTextOfOne) {
  sent_by_up();
  EXPECT_EQ(flock.json({"status", "-o", "json"}).at("ducks").at(0).at("threads"), 1) << "the ducks share this machine's cores";
  const auto first = answer();
  replace_in(inventory, "[power]", "[agent]\nthreads = 3\n[power]");
  EXPECT_THAT(flock.ductl({"plan"}).out, HasSubstr("~ restart duck01 (computes with 1 threads, the inventory says 3)"));
  EXPECT_EQ(sent_by_up(), model_bytes(weights::TileFormat::NineBit));
  for (const auto& duck : flock.json({"status", "-o", "json"}).at("ducks")) EXPECT_EQ(duck.at("threads"), 3);
  EXPECT_EQ(answer().at("answer"), first.at("answer"));
}

TEST_F(Settings, CompactRepliesAreSaidWhereverAnswersAreExplained) {
  sent_by_up();
  EXPECT_EQ(answer().at("stats").at("replies"), "exact");
  EXPECT_EQ(flock.json({"status", "-o", "json"}).at("engine").at("replies"), "exact");
  replace_in(inventory, "[engine]", "[engine]\nreply = \"compact\"");
  EXPECT_EQ(sent_by_up(), 0u) << "the engine alone starts again";
  EXPECT_EQ(flock.json({"status", "-o", "json"}).at("engine").at("replies"), "compact");
  EXPECT_THAT(flock.ductl({"status"}).out, HasSubstr("compact replies"));
  const auto first = answer();
  EXPECT_EQ(first.at("stats").at("replies"), "compact");
  EXPECT_EQ(answer().at("answer"), first.at("answer")) << "the same for one placement";
}

} // namespace
} // namespace ductl::test
