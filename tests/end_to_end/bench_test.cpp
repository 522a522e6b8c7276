// `ductl bench`: the whole engine on random weights of a shape.
#include "tests/support/files.hpp"
#include "tests/support/local_flock.hpp"
#include "tests/support/program.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace ductl::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct BenchTest : ::testing::Test {
  TempFolder folder;
  std::filesystem::path tmp = folder.path() / "tmp";

  void SetUp() override { std::filesystem::create_directories(tmp); }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(tmp));
    EXPECT_THAT(processes_naming(folder.path().string()), IsEmpty());
  }

  // The config of a tiny checkpoint without its weights.
  std::string config(const TinyModel& model) const {
    const auto place = folder.path() / "model";
    std::filesystem::create_directories(place);
    write_tiny_checkpoint(model, place);
    std::filesystem::remove(place / "model.safetensors");
    return (place / "config.json").string();
  }
  ProgramOptions options() const {
    ProgramOptions options;
    options.environment = {{"XDG_STATE_HOME", (folder.path() / "state").string()},
                           {"XDG_CACHE_HOME", (folder.path() / "cache").string()},
                           {"TMPDIR", tmp.string()}};
    return options;
  }
  ProgramResult decode(const std::string& config_file, const std::vector<std::string>& more) const {
    std::vector<std::string> argv{"ductl", "bench", "decode", "--config", config_file};
    argv.insert(argv.end(), more.begin(), more.end());
    return run_program(argv, options());
  }
};

TinyModel tiny_moe() {
  TinyModel model;
  model.model_type = "qwen3_moe";
  return model;
}

TEST_F(BenchTest, DecodesWithRandomWeights) {
  const ProgramResult result =
      decode(config(tiny_moe()), {"--layers", "2", "--vocab", "300", "--ducks", "2", "--samples", "2", "-o", "json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("schema"), "ductl/bench-decode/v1");
  EXPECT_EQ(json.at("layers"), 2);
  EXPECT_EQ(json.at("vocab"), 300);
  EXPECT_EQ(json.at("ducks"), 2);
  EXPECT_GE(json.at("threads"), 1);
  EXPECT_EQ(json.at("rounds_repeated"), 0);                              // sane weights stay far from the guard
  EXPECT_EQ(json.at("ffn_bytes_per_token"), 2 * 2 * 2 * (64 + 6 * 576)); // layers, experts, slices of 32 channels of hidden 64
  for (const char* figure : {"decode_tok_s", "prefill_tok_s", "host_bytes_per_token", "ffn_stream_fraction",
                             "host_stream_fraction", "stream_gbps", "ffn_ms_per_token", "host_ms_per_token"})
    EXPECT_GT(json.at(figure).get<double>(), 0) << figure;
}

TEST_F(BenchTest, DecodesInTheShapeOfAnFp8ModelWithLatentAttention) {
  TinyModel model = tiny_moe();
  model.model_type = "deepseek_v32";
  model.type = TinyType::F8;
  model.mtp_layers = 1;
  const ProgramResult result = decode(config(model), {"--ducks", "1", "--samples", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out).at("model_type"), "deepseek_v32");
}

TEST_F(BenchTest, RefusesWhatDoesNotFitWithFigures) {
  const std::string large = DUCTL_SOURCE_DIR "/tests/weights/configs/deepseek_v3.json";
  const ProgramResult result = decode(large, {"-o", "json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("the model does not fit: duck duck01 needs"));
  EXPECT_THAT(result.out, HasSubstr("ductl/error/v1"));
}

TEST_F(BenchTest, RefusesMoreLayersThanThereAre) {
  const ProgramResult result = decode(config(tiny_moe()), {"--layers", "9"});
  EXPECT_EQ(result.status, 64);
  EXPECT_THAT(result.err, HasSubstr("--layers is 9, and the model has 3"));
}

TEST_F(BenchTest, RefusesAConfigThatIsNone) {
  const auto file = folder.path() / "config.json";
  std::ofstream(file) << R"({"model_type": "gpt2"})";
  const ProgramResult result = decode(file.string(), {});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("gpt2"));
}

TEST_F(BenchTest, LeavesNothingBehindWhenItIsTerminated) {
  RunningProgram bench({"ductl", "bench", "decode", "--config", config(tiny_moe()), "--ducks", "2", "--samples", "1001"},
                       options());
  const auto measures = [&] {
    for (const std::string& line : processes_naming(tmp.string()))
      if (line.find("bench") != std::string::npos && line.find("duck-engine") != std::string::npos) return true;
    return false;
  };
  for (int i = 0; i < 20'000 && !measures(); ++i) usleep(1000);
  EXPECT_TRUE(measures());
  bench.signal(SIGTERM);
  EXPECT_EQ(bench.wait().status, 128 + SIGTERM);
}

TEST_F(BenchTest, KernelsRefuseASetThatTheCacheHolds) {
  const ProgramResult result = run_program({"ductl", "bench", "kernels", "--set-mib", "1"}, options());
  EXPECT_EQ(result.status, 64);
  EXPECT_THAT(result.err, HasSubstr("says nothing beside a last level cache"));
  EXPECT_THAT(result.out, HasSubstr("ductl/error/v1"));
}

} // namespace
} // namespace ductl::test
