// Byte-level BPE from tokenizer.json. Immutable after loading: any number of threads.
//
// Supported: model BPE without byte_fallback and dropout, merges as "a b" or ["a","b"], added tokens, normaliser none or
// NFC, pre-tokenisers Split (Isolated), Digits, ByteLevel and Sequences of them. Anything else is refused by name.
// What exactly is understood, and how text that is not UTF-8 is read: docs/tokenizer.md.
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

// Match: added tokens, special or not, are found literally in the text (what transformers does).
// Ignore: no added token is found, special or not: the text of one is ordinary text, and no merge leads to one either. What
// user text and `model tokenize --no-special` are encoded with; no result ever holds the id of an added token.
enum class SpecialTokens { Match, Ignore };

class Tokenizer {
public:
  virtual ~Tokenizer() = default;
  // No BOS or EOS is added. Bytes that are not UTF-8 are read as U+FFFD.
  [[nodiscard]] virtual std::vector<int> encode(std::string_view utf8, SpecialTokens special) const = 0;
  // Bytes; may be cut within a character. Ids without text (out of range, padding rows) give nothing.
  [[nodiscard]] virtual std::string decode(std::span<const int> ids, bool skip_special = false) const = 0;
  [[nodiscard]] virtual std::string_view bytes(int id) const = 0;                         // "" for ids without text
  [[nodiscard]] virtual std::optional<int> id_of(std::string_view added_token) const = 0; // exact text of an added token
  [[nodiscard]] virtual bool is_special(int id) const = 0;
  [[nodiscard]] virtual int size() const = 0; // one past the largest id
};

// folder/tokenizer.json
[[nodiscard]] Expected<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder);
// `place` names the file in errors.
[[nodiscard]] Expected<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view json, const std::string& place);

} // namespace ductl::engine
