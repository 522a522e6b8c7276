#include "tests/end_to_end/tiny_flock.hpp"

#include "engine/tokenizer/byte_alphabet.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

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

TinyFlock::TinyFlock(const LocalFlockOptions& options) : LocalFlock(options) { write_tiny_model(model()); }

} // namespace ductl::test
