// Byte-level BPE from tokenizer.json. Immutable after loading: any number of threads.
//
// Supported: model BPE without byte_fallback and dropout, merges as "a b" or ["a","b"], added tokens, normaliser none or
// NFC, pre-tokenisers Split (Isolated), Digits, ByteLevel and Sequences of them. Anything else is refused by name.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::engine {

enum class SpecialTokens { Match, Ignore }; // Ignore: user text; never yields an added token that is special

class Tokenizer {
public:
  virtual ~Tokenizer() = default;
  // No BOS or EOS is added.
  [[nodiscard]] virtual std::vector<int> encode(std::string_view utf8, SpecialTokens special) const = 0;
  [[nodiscard]] virtual std::string decode(std::span<const int> ids, bool skip_special = false) const = 0; // bytes, may be cut within a character
  [[nodiscard]] virtual std::string_view bytes(int id) const = 0; // "" for ids without text
  [[nodiscard]] virtual std::optional<int> id_of(std::string_view added_token) const = 0; // exact text of an added token
  [[nodiscard]] virtual bool is_special(int id) const = 0;
  [[nodiscard]] virtual int size() const = 0; // one past the largest id
};

// folder/tokenizer.json
[[nodiscard]] Expected<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder);
[[nodiscard]] Expected<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view json, const std::string& place);

} // namespace ductl::engine
