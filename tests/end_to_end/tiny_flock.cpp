#include "tests/end_to_end/tiny_flock.hpp"

#include "engine/tokenizer/byte_alphabet.hpp"
#include "tests/support/local_flock.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sstream>
#include <unistd.h>

namespace ductl::test {
namespace {

constexpr int kTinyEndMarker = 258; // <|im_end|>

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_byte_tokenizer(const std::filesystem::path& file) {
  nlohmann::json vocab = nlohmann::json::object(), added = nlohmann::json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[engine::letter_of_byte(static_cast<std::uint8_t>(byte))] = byte;
  int id = 256;
  for (const char* marker : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    added.push_back({{"id", id++}, {"content", marker}, {"special", true}, {"normalized", false}});
  }
  std::ofstream(file) << nlohmann::json{
      {"added_tokens", added},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
}

// Rows of zeros: their logit is 0, and the largest of the others never is.
void silence_markers(const std::filesystem::path& file, int hidden) {
  std::string bytes = text_of(file);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(bytes.substr(sizeof header_bytes, header_bytes));
  const std::size_t start =
      sizeof header_bytes + header_bytes + header.at("lm_head.weight").at("data_offsets").at(0).get<std::size_t>();
  const std::size_t row_bytes = static_cast<std::size_t>(hidden) * 2; // bf16
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(start + 256 * row_bytes), (kTinyVocab - 256) * row_bytes, '\0');
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

} // namespace

void write_tiny_model(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  TinyModel model;
  model.layers = kTinyLayers;
  model.vocab = kTinyVocab;
  model.intermediate = 16 * kTinySlicesEach;
  write_tiny_checkpoint(model, folder);
  silence_markers(folder / "model.safetensors", model.hidden);
  write_byte_tokenizer(folder / "tokenizer.json");
  auto config = nlohmann::json::parse(text_of(folder / "config.json"));
  config["eos_token_id"] = kTinyEndMarker;
  std::ofstream(folder / "config.json") << config;
}

TinyFlock::TinyFlock(const TinyFlockOptions& options) : api_port_(free_port()) {
  static std::atomic<int> count{0};
  const int number = count++;
  name_ = fmt::format("tiny-{}-{}", getpid(), number);
  // A subnet of its own: tests run side by side.
  subnet_ = fmt::format("127.{}.{}", 64 + getpid() % 128, (getpid() / 128 + number) % 250 + 1);
  write_tiny_model(model());
  write_inventory(options);
}

TinyFlock::~TinyFlock() {
  const ProgramResult down = ductl({"down", "--yes"});
  EXPECT_EQ(down.status, 0) << down.err;
  EXPECT_TRUE(processes().empty()) << processes().front();
}

void TinyFlock::write_inventory(const TinyFlockOptions& options) const {
  std::ofstream(folder_.path() / "flock.toml")
      << fmt::format("[flock]\nname = \"{}\"\n[[port]]\nname = \"loopback\"\ninterface = \"lo\"\naddress = \"{}.1/24\"\n", name_,
                     subnet_)
      << fmt::format("[[ducks]]\nname = \"duck[01-{:02}]\"\naddress = \"{}.[101-{}]\"\n{}\n", options.ducks, subnet_,
                     100 + options.ducks, options.ducks_toml)
      << "[power]\ndriver = \"process\"\n[model]\nsource = \"model\"\n"
      << fmt::format("[engine]\napi_port = {}\n{}\n[limits]\n{}\n", api_port_, options.engine_toml, options.limits_toml);
}

std::string TinyFlock::address(int duck) const { return fmt::format("{}.{}", subnet_, 100 + duck); }

std::vector<std::string> TinyFlock::argv(const std::vector<std::string>& arguments) const {
  std::vector<std::string> all{"ductl", "-i", (folder_.path() / "flock.toml").string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

ProgramOptions TinyFlock::options(std::chrono::seconds limit) const {
  ProgramOptions options;
  options.environment = {{"XDG_STATE_HOME", (folder_.path() / "state").string()},
                         {"XDG_CACHE_HOME", (folder_.path() / "cache").string()},
                         {"XDG_CONFIG_HOME", (folder_.path() / "config").string()},
                         {"TMPDIR", (folder_.path() / "tmp").string()}};
  std::filesystem::create_directories(folder_.path() / "tmp");
  options.limit = limit;
  return options;
}

ProgramResult TinyFlock::ductl(const std::vector<std::string>& arguments) const {
  return run_program(argv(arguments), options());
}

nlohmann::json TinyFlock::json(const std::vector<std::string>& arguments, int expected_status) const {
  const ProgramResult result = ductl(arguments);
  EXPECT_EQ(result.status, expected_status) << result.err;
  auto parsed = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << result.out << result.err;
  return parsed;
}

int TinyFlock::pid_of(const std::string& process) const {
  const auto record = nlohmann::json::parse(text_of(state() / "run" / (process + ".json")), nullptr, false);
  return record.is_object() ? record.value("pid", 0) : 0;
}

std::vector<std::string> TinyFlock::processes() const { return processes_naming(folder_.path().string()); }

std::vector<std::string> processes_naming(const std::string& word) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::string line = text_of(entry.path() / "cmdline");
    std::replace(line.begin(), line.end(), '\0', ' ');
    const bool ours = line.find("/duck-agent ") != std::string::npos || line.find("/duck-engine ") != std::string::npos;
    if (ours && line.find(word) != std::string::npos) found.push_back(line);
  }
  return found;
}

} // namespace ductl::test
