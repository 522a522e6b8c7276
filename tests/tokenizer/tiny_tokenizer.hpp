// A tokenizer small enough to reason about: ids 0..255 are the bytes, then one id for each merge, then the added tokens.
#pragma once

#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ductl::engine {

struct TinyTokenizer {
  std::vector<std::pair<std::string, std::string>> merges = {}; // of bytes
  std::vector<std::string> special = {}, ordinary = {};         // added tokens
  nlohmann::json pre_tokenizer = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  nlohmann::json normalizer = nullptr;

  static std::string letters(std::string_view bytes) {
    std::string out;
    for (const char byte : bytes) out += letter_of_byte(static_cast<std::uint8_t>(byte));
    return out;
  }

  [[nodiscard]] nlohmann::json json() const {
    nlohmann::json vocab = nlohmann::json::object(), list = nlohmann::json::array(), added = nlohmann::json::array();
    for (int byte = 0; byte < 256; ++byte) vocab[letter_of_byte(static_cast<std::uint8_t>(byte))] = byte;
    int id = 256;
    for (const auto& [left, right] : merges) {
      vocab[letters(left + right)] = id++;
      list.push_back({letters(left), letters(right)});
    }
    const auto add = [&](const std::string& content, bool is_special) {
      added.push_back({{"id", id++}, {"content", content}, {"special", is_special}, {"normalized", false}});
    };
    for (const std::string& content : special) add(content, true);
    for (const std::string& content : ordinary) add(content, false);
    return {{"version", "1.0"},
            {"added_tokens", added},
            {"normalizer", normalizer},
            {"pre_tokenizer", pre_tokenizer},
            {"decoder", {{"type", "ByteLevel"}}},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
  }

  [[nodiscard]] std::unique_ptr<Tokenizer> make() const {
    auto made = parse_tokenizer(json().dump(), "tiny");
    if (!made) throw std::runtime_error(made.error().text());
    return std::move(*made);
  }
};

} // namespace ductl::engine
