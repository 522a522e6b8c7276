// The files of a flock's state folder.
#include "agent/client/flock_key.hpp"
#include "agent/client/process_log.hpp"
#include "agent/client/serving.hpp"
#include "agent/client/state_folder.hpp"
#include "agent/log_tail.hpp"
#include "tests/support/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <set>

namespace ductl::agent {
namespace {

using test::text_of;
using testing::HasSubstr;
using testing::MatchesRegex;

unsigned mode_of(const std::filesystem::path& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST(FlockKey, IsMadeOnceAndKeptPrivate) {
  const test::TempFolder folder;
  const auto file = folder.path() / "key";
  EXPECT_FALSE(load_flock_key(file));
  const auto key = obtain_flock_key(file);
  ASSERT_TRUE(key) << key.error().text();
  EXPECT_THAT(*key, MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(key->size(), 64u);
  EXPECT_EQ(mode_of(file), 0600u);
  EXPECT_EQ(*obtain_flock_key(file), *key);
  EXPECT_EQ(*load_flock_key(file), *key);
  const test::TempFolder other;
  EXPECT_NE(*obtain_flock_key(other.path() / "key"), *key);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "no other file is left";
}

TEST(FlockKey, ManyWhoMakeItAtOnceGetTheSameOne) {
  const test::TempFolder folder;
  const auto file = folder.path() / "key";
  std::vector<std::future<Expected<std::string>>> makers;
  for (int i = 0; i < 8; ++i) makers.push_back(std::async(std::launch::async, [&file] { return obtain_flock_key(file); }));
  std::set<std::string> keys;
  for (auto& maker : makers) {
    const auto key = maker.get();
    ASSERT_TRUE(key) << key.error().text();
    keys.insert(*key);
  }
  EXPECT_EQ(keys.size(), 1u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "no other file is left";
}

TEST(FlockKey, FilesThatOthersMayReadAreRefused) {
  const test::TempFolder folder;
  const auto file = folder.path() / "key";
  ASSERT_TRUE(obtain_flock_key(file));
  for (const unsigned mode : {0640u, 0604u, 0660u, 0601u}) {
    ::chmod(file.c_str(), mode);
    const auto key = load_flock_key(file);
    ASSERT_FALSE(key) << mode;
    EXPECT_THAT(key.error().message, HasSubstr("others may read"));
  }
}

TEST(FlockKey, LinksAndOtherTextsAreRefused) {
  const test::TempFolder folder;
  const auto file = folder.path() / "key", link = folder.path() / "link";
  ASSERT_TRUE(obtain_flock_key(file));
  std::filesystem::create_symlink(file, link);
  EXPECT_FALSE(load_flock_key(link));
  for (const std::string& text :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'G'), std::string(100'000, 'a')}) {
    std::ofstream(file, std::ios::trunc) << text;
    EXPECT_FALSE(load_flock_key(file)) << text.size();
  }
}

TEST(FlockKey, IsReadFromADescriptor) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const std::string key(64, 'b');
  ASSERT_EQ(::write(ends[1], (key + "\n").data(), 65), 65);
  ::close(ends[1]);
  EXPECT_EQ(*read_flock_key(ends[0]), key);
  EXPECT_EQ(::fcntl(ends[0], F_GETFD), -1) << "closed";
}

TEST(StateFolder, IsPrivate) {
  const test::TempFolder folder;
  const StateFolder state{folder.path() / "a" / "flock"};
  ASSERT_TRUE(make_state_folder(state));
  EXPECT_EQ(mode_of(state.root), 0700u);
  EXPECT_EQ(mode_of(state.log("x").parent_path()), 0700u);
  EXPECT_TRUE(make_state_folder(state));
  std::ofstream(folder.path() / "file") << "x";
  const auto blocked = make_state_folder({folder.path() / "file" / "flock"});
  ASSERT_FALSE(blocked);
  EXPECT_EQ(blocked.error().code, ErrorCode::kState);
}

Serving sample() {
  Serving serving;
  serving.flock = "home";
  serving.model_source = "org/model";
  serving.manifest = "/cache/manifests/x.manifest";
  serving.epoch = 4;
  serving.slices_total = 12345678901;
  serving.ports = {{"port1", "lo", 0x7f150101, 24, inventory::Fanout::Unicast},
                   {"port2", "enp1s0f1", 0x0a150201, 24, inventory::Fanout::Broadcast}};
  serving.ducks = {{"duck1", 0, 0x7f150165, 7421, 7422}, {"duck2", 1, 0x0a150265, 50001, 50002}};
  serving.engine.hidden = inventory::HiddenType::Bf16;
  serving.engine.reply = inventory::ReplyType::Compact;
  serving.engine.index_keys = inventory::IndexKeys::Fp8;
  serving.engine.speculation = inventory::SpeculationKind::Off;
  serving.engine.context_length = 4096;
  serving.limits.dead_after_ms = 50;
  return serving;
}

TEST(Serving, ComesBackAsItWas) {
  const test::TempFolder folder;
  const auto file = folder.path() / "serving.json";
  ASSERT_TRUE(save_serving(sample(), file));
  EXPECT_EQ(text_of(file), serving_text(sample()));
  const auto loaded = load_serving(file);
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(serving_text(*loaded), serving_text(sample()));
  EXPECT_EQ(loaded->ducks, sample().ducks);
  EXPECT_EQ(loaded->ports, sample().ports);
  EXPECT_EQ(loaded->engine.hidden, inventory::HiddenType::Bf16);
  EXPECT_EQ(loaded->limits.dead_after_ms, 50);
}

TEST(Serving, DamagedFilesAreErrors) {
  const test::TempFolder folder;
  const auto file = folder.path() / "serving.json";
  EXPECT_FALSE(load_serving(file));
  const std::string good = serving_text(sample());
  const auto refused = [&](std::string text, const std::string& from, const std::string& to) {
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    std::ofstream(file, std::ios::trunc) << text;
    return !load_serving(file);
  };
  EXPECT_FALSE(refused(good, "", ""));
  EXPECT_TRUE(refused(good.substr(0, good.size() / 2), "", ""));
  EXPECT_TRUE(refused(good, "ductl/serving/v1", "ductl/serving/v2"));
  EXPECT_TRUE(refused(good, "\"broadcast\"", "\"loud\""));
  EXPECT_TRUE(refused(good, "127.21.1.101", "127.21.1.1010"));
  EXPECT_TRUE(refused(good, "50001", "70001"));
  EXPECT_TRUE(refused(good, "\"port_index\": 1", "\"port_index\": 2"));
  EXPECT_TRUE(refused(good, "\"epoch\": 4", "\"epoch\": \"4\""));
}

TEST(ProcessLog, WritesLinesAndTellsTheTail) {
  const test::TempFolder folder;
  const auto before = spdlog::default_logger();
  const auto file = folder.path() / "process.log";
  ASSERT_TRUE(start_log(file));
  for (int i = 0; i < 100; ++i) spdlog::info("line {}", i);
  spdlog::set_default_logger(before);
  const std::string whole = text_of(file);
  EXPECT_THAT(whole.substr(0, whole.find('\n')), MatchesRegex("....-..-..T..:..:..[.]... info line 0"));
  EXPECT_TRUE(whole.ends_with(" info line 99\n"));
  EXPECT_EQ(*log_tail(file, 1 << 20), whole);
  EXPECT_EQ(*log_tail(file, whole.size()), whole);
  const std::string tail = *log_tail(file, 200);
  EXPECT_LE(tail.size(), 200u);
  EXPECT_TRUE(whole.ends_with(tail));
  EXPECT_EQ(whole[whole.size() - tail.size() - 1], '\n') << "whole lines";
  EXPECT_EQ(*log_tail(file, 0), "");
  EXPECT_FALSE(log_tail(folder.path() / "none", 10));
  EXPECT_FALSE(start_log(file / "below-a-file"));
}

TEST(ProcessLog, GoesOnInANewFileAfterFourMebibytes) {
  const test::TempFolder folder;
  const auto before = spdlog::default_logger();
  const auto file = folder.path() / "process.log", older = folder.path() / "process.1.log";
  ASSERT_TRUE(start_log(file));
  const std::string line(1000, 'x');
  for (int i = 0; i < 4300; ++i) spdlog::info("{} {}", i, line); // a little more than 4 MiB
  spdlog::set_default_logger(before);
  ASSERT_TRUE(std::filesystem::exists(older));
  EXPECT_LE(std::filesystem::file_size(older), 4u << 20);
  EXPECT_GT(std::filesystem::file_size(older), (4u << 20) - 2000);
  EXPECT_THAT(text_of(older), HasSubstr(" info 0 x"));
  const std::string newest = text_of(file);
  EXPECT_LT(newest.size(), 1u << 20);
  EXPECT_THAT(newest, HasSubstr(" info 4299 x")); // the last line is in the file that is named
  EXPECT_EQ(*log_tail(file, 4 << 20), newest);
  EXPECT_TRUE(start_log(file)) << "twice in one process is no error";
  spdlog::set_default_logger(before);
}

} // namespace
} // namespace ductl::agent
