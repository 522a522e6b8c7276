#include "tests/end_to_end/tiny_flock.hpp"

#include "engine/tokenizer/byte_alphabet.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>

namespace ductl::test {
namespace {

constexpr int kTinyEndMarker = 258; // <|im_end|>

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

void write_tiny_model(const std::filesystem::path& folder, std::uint64_t seed, TinyType type) {
  std::filesystem::create_directories(folder);
  TinyModel model;
  model.seed = seed;
  model.type = type;
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

TinyFlock::TinyFlock(const LocalFlockOptions& options) : LocalFlock(options) { write_tiny_model(model()); }

OwnPrograms::OwnPrograms(const TinyFlock& flock) : flock_(flock), bin_(flock.folder() / "bin") {
  std::filesystem::create_directories(bin_);
  for (const char* program : {"ductl", "duck-agent", "duck-engine"}) {
    std::filesystem::copy_file(std::filesystem::path(DUCTL_BIN_DIR) / program, bin_ / program);
  }
}

std::vector<std::string> OwnPrograms::argv(const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = flock_.argv(arguments);
  words.front() = bin_ / "ductl";
  return words;
}

ProgramResult OwnPrograms::ductl(const std::vector<std::string>& arguments) const {
  return run_program(argv(arguments), flock_.options());
}

nlohmann::json OwnPrograms::json(const std::vector<std::string>& arguments) const {
  const ProgramResult result = ductl(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

void OwnPrograms::rebuild(const std::string& program) const {
  std::filesystem::copy_file(bin_ / program, bin_ / (program + ".new"));
  std::filesystem::rename(bin_ / (program + ".new"), bin_ / program);
}

std::filesystem::path OwnPrograms::hold(const std::string& program) const {
  const std::filesystem::path real = bin_ / "held" / program, go = bin_ / "go";
  std::filesystem::create_directories(real.parent_path());
  std::filesystem::rename(bin_ / program, real);
  {
    std::ofstream script(bin_ / program);
    script << "#!/bin/sh\nwhile [ \"$1\" != check ] && [ ! -e " << go << " ]; do sleep 0.01; done\nexec " << real << " \"$@\"\n";
  }
  std::filesystem::permissions(bin_ / program, std::filesystem::perms::owner_all);
  return go;
}

} // namespace ductl::test
