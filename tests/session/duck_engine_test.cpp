// duck-engine's own commands, run as a program on a small checkpoint with the FFNs in process.
#include "tests/support/program.hpp"
#include "tests/support/tiny_checkpoint.hpp"
#include "tests/tokenizer/tiny_tokenizer.hpp"

#include <cmath>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace ductl::engine {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class DuckEngine : public testing::Test {
protected:
  DuckEngine() { test::write_tiny_checkpoint({}, folder_.path()); }
  test::ProgramResult model(const std::string& verb, std::vector<std::string> words) {
    words.insert(words.begin(), {"duck-engine", "model", verb, folder_.path().string()});
    return test::run_program(words);
  }
  json logits(std::vector<std::string> words) {
    words.insert(words.begin(), {"--no-ducks", "--ids"});
    const auto result = model("logits", words);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  void expect_refused(const test::ProgramResult& result, int status, const std::string& why) {
    EXPECT_EQ(result.status, status);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_THAT(result.err, HasSubstr("help: "));
  }
  test::TempFolder folder_;
};

TEST_F(DuckEngine, logits_are_those_of_the_last_position_or_of_all_with_nine_digits) {
  const json all = logits({"3,1,4,1,5", "--all"});
  EXPECT_EQ(all.at("schema"), "ductl/logits/v1");
  EXPECT_EQ(all.at("positions"), (json{0, 1, 2, 3, 4}));
  ASSERT_EQ(all.at("logits").size(), 5u);
  EXPECT_EQ(all.at("logits")[0].size(), 128u);
  const json last = logits({"3,1,4,1,5"});
  EXPECT_EQ(last.at("positions"), (json{4}));
  EXPECT_EQ(last.at("logits")[0], all.at("logits")[4]);
  EXPECT_EQ(logits({"3,1"}).at("logits")[0], all.at("logits")[1]); // a prefix's bits do not know what follows
  EXPECT_NE(all.at("logits")[1], all.at("logits")[3]);             // the same token elsewhere
}

TEST_F(DuckEngine, a_context_longer_than_a_batch_has_the_bits_of_its_parts) {
  std::string ids = "1";
  for (int i = 1; i < 100; ++i) ids += "," + std::to_string(i * 7 % 128);
  const json all = logits({ids, "--all"});
  EXPECT_EQ(logits({ids.substr(0, ids.find(",", 3))}).at("logits")[0], all.at("logits")[1]);
  EXPECT_EQ(logits({ids, "--threads", "1"}).at("logits")[0], all.at("logits")[99]);
}

TEST_F(DuckEngine, ids_and_words_that_do_not_fit_are_refused_with_the_next_step) {
  expect_refused(model("logits", {"--no-ducks", "--ids", "3,128"}), 64, "expected a number from 0 to 127");
  expect_refused(model("logits", {"--no-ducks"}), 64, "--ids is missing");
  expect_refused(model("logits", {"--ids", "1"}), 64, "where the FFNs are computed");
  expect_refused(model("logits", {"--no-ducks", "--ids", "1", "--hidden", "bf16"}), 64, "there are none");
  expect_refused(model("logits", {"--state", folder_.path().string(), "--ids", "1"}), 1, "serving.json");
  expect_refused(model("guess", {}), 64, "\"model guess\" is not known");
  expect_refused(test::run_program({"duck-engine", "serve"}), 64, "--state is missing");
}

TEST_F(DuckEngine, perplexity_takes_windows_as_long_as_the_model_allows) {
  const test::TempFolder folder;
  test::TinyModel tiny;
  tiny.vocab = 260;
  tiny.max_position = 48;
  test::write_tiny_checkpoint(tiny, folder.path());
  std::ofstream(folder.path() / "tokenizer.json") << TinyTokenizer{}.json();
  const auto perplexity = [&](int bytes) {
    const std::string text = (folder.path() / "text").string();
    std::ofstream(text, std::ios::trunc) << std::string(static_cast<std::size_t>(bytes), 'a');
    return test::run_program({"duck-engine", "model", "perplexity", folder.path().string(), "--no-ducks", "--text", text});
  };
  for (const auto& [bytes, scored] : {std::pair(2, 1), std::pair(30, 29), std::pair(48, 47), std::pair(100, 47 + 47 + 3)}) {
    const auto result = perplexity(bytes);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(json::parse(result.out).at("tokens"), scored) << bytes << " bytes";
    EXPECT_GT(json::parse(result.out).at("perplexity").get<double>(), 1);
  }
  expect_refused(perplexity(1), 1, "fewer than two tokens");
}

TEST_F(DuckEngine, a_config_alone_is_shown_with_its_sizes_and_whether_it_fits_a_flock) {
  const test::TempFolder folder;
  std::filesystem::copy_file(std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/weights/configs/deepseek_v3_2.json",
                             folder.path() / "config.json");
  const auto show = [&](std::vector<std::string> more) {
    std::vector<std::string> argv{"duck-engine", "model", "show", folder.path().string(), "-o", "json"};
    argv.insert(argv.end(), more.begin(), more.end());
    const test::ProgramResult result = test::run_program(argv);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out);
  };
  const json kept = show({"--host-ffn", "dense,shared"});
  EXPECT_EQ(kept.at("parameters"), 671'877'944'064u);
  EXPECT_EQ(kept.at("host_parameters"), 17'969'173'248u);
  EXPECT_EQ(kept.at("duck_parameters"), 653'908'770'816u);
  EXPECT_EQ(kept.at("mtp_parameters"), 11'624'027'648u);
  EXPECT_EQ(kept.at("active_parameters"), 38'403'822'336u);
  EXPECT_EQ(kept.at("attention_parameters"), 12'265'071'872u);
  EXPECT_EQ(kept.at("shared_parameters"), 2'554'331'136u);
  EXPECT_TRUE(kept.at("checkpoint_bytes").is_null());
  EXPECT_FALSE(kept.contains("flock"));

  json home = show({"--flock", std::filesystem::path(DUCTL_SOURCE_DIR) / "inventory/home.toml"}).at("flock");
  EXPECT_EQ(home.at("ducks"), 32);
  EXPECT_EQ(home.at("each_duck").size(), 32u);
  json both = show({"--host-ffn", "dense,shared", "--flock", std::filesystem::path(DUCTL_SOURCE_DIR) / "inventory/home.toml"});
  EXPECT_EQ(both.at("host_parameters"), kept.at("host_parameters"));
  for (json* flock : {&both.at("flock"), &home}) flock->erase("host_bytes_available"); // it changes from moment to moment
  EXPECT_EQ(both.at("flock"), home);                                                   // which counts as the engine runs
  EXPECT_NEAR(home.at("duck_bytes_each").get<double>(), 752.6e9 * 8 / 9 / 32,
              0.5e9); // facts: 700.9 GiB of fp9 with the MTP layer; in e4m3 8 bits of 9
  std::ofstream(folder.path() / "small.toml") << R"([flock]
name = "small"
[[port]]
name = "loopback"
interface = "lo"
address = "127.9.0.1/24"
[[duck]]
name = "d"
address = "127.9.0.2"
memory_gib = 1
[power]
driver = "process"
[model]
source = "."
)";
  const json small = show({"--flock", folder.path() / "small.toml"}).at("flock");
  EXPECT_FALSE(small.at("fits").get<bool>());
  EXPECT_THAT(small.at("reason").get<std::string>(), HasSubstr("duck d needs"));
}

TEST_F(DuckEngine, more_ids_than_positions_are_refused_without_naming_a_setting_of_the_flock) {
  std::string ids = "1";
  for (int i = 0; i < 4096; ++i) ids += ",1";
  const auto result = model("logits", {"--no-ducks", "--ids", ids});
  expect_refused(result, 1, "4097");
  EXPECT_THAT(result.err, HasSubstr("at most 4096 ids"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("engine.context_length")));
}

TEST_F(DuckEngine, check_finds_what_serve_would_refuse) {
  const auto check = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"duck-engine", "check", "--model", folder_.path().string(), "--state", folder_.path().string()});
    return test::run_program(words);
  };
  expect_refused(check({}), 1, "tokenizer.json");
  expect_refused(check({"--context", "4097"}), 1, "4097");
  expect_refused(check({"--api-address", "0.0.0.0"}), 1, "without a key");
  expect_refused(check({"--api-port", "70000"}), 64, "--api-port");
  expect_refused(check({"--api-address", "here"}), 64, "expected an IPv4 address");
  expect_refused(test::run_program({"duck-engine", "check"}), 64, "--model is missing");
}

TEST_F(DuckEngine, show_says_sizes_and_memory_as_json_too) {
  const auto table = model("show", {});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("llama"));
  const json shown = json::parse(model("show", {"-o", "json"}).out);
  EXPECT_EQ(shown.at("family"), "llama");
  EXPECT_EQ(shown.at("duck_parameters"), 3 * 3 * 64 * 96);
  EXPECT_EQ(shown.at("slices"), 3 * 96 / 16);
  EXPECT_EQ(shown.at("kv_bytes_per_token"), 3 * 2 * 2 * 16 * 4);
}

TEST_F(DuckEngine, more_ids_than_the_model_has_positions_are_refused) {
  const test::TempFolder folder;
  test::TinyModel tiny;
  tiny.model_type = "deepseek_v32";
  tiny.max_position = 64;
  test::write_tiny_checkpoint(tiny, folder.path());
  std::string ids = "1";
  for (int i = 0; i < tiny.max_position; ++i) ids += ",1";
  expect_refused(test::run_program({"duck-engine", "model", "logits", folder.path().string(), "--no-ducks", "--ids", ids}), 1,
                 "at most 64 ids");
}

TEST(DuckEngineProgram, help_and_version_go_to_stdout) {
  EXPECT_THAT(test::run_program({"duck-engine", "--help"}).out, HasSubstr("model perplexity"));
  EXPECT_THAT(test::run_program({"duck-engine", "--version"}).out, HasSubstr("duck-engine "));
  EXPECT_EQ(test::run_program({"duck-engine"}).status, 64);
}

} // namespace
} // namespace ductl::engine
