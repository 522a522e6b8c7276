// The tokenizer itself: what tokenizer_json.cpp has read, put to use.
#pragma once

#include "engine/tokenizer/bpe.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer/token_trie.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <unordered_map>

namespace ductl::engine {

struct AddedToken {
  std::string content;
  int id = 0;
  bool special = false;
  bool normalized = false; // looked for in the normalised text instead of the raw one
};

// Everything a tokenizer.json says, checked.
struct TokenizerParts {
  std::vector<std::string> bytes;  // by id; "" where there is no such token
  std::array<int, 256> byte_ids{}; // -1: not in the vocabulary
  std::vector<Bpe::Merge> merges;  // none leads to an added token
  std::vector<AddedToken> added;
  bool nfc = false;
  PreTokenizer pre_tokenizer;
  bool whole_pieces = false; // ignore_merges: a piece that is a token is that token, whatever the merges say
};

class BpeTokenizer final : public Tokenizer {
public:
  explicit BpeTokenizer(TokenizerParts parts);

  std::vector<int> encode(std::string_view utf8, SpecialTokens special) const override;
  std::string decode(std::span<const int> ids, bool skip_special) const override;
  std::string_view bytes(int id) const override;
  std::optional<int> id_of(std::string_view added_token) const override;
  bool is_special(int id) const override;
  int size() const override { return static_cast<int>(bytes_.size()); }

private:
  struct Pass; // one encode() under way
  void encode_plain(std::string_view normalised, Pass& pass) const;
  void encode_matching(std::string_view text, Pass& pass) const;

  std::vector<std::string> bytes_;
  std::vector<bool> special_;
  std::unordered_map<std::string, int> added_;
  TokenTrie raw_added_, normalised_added_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  std::unordered_map<std::string_view, int> whole_pieces_; // views of bytes_; empty unless ignore_merges
  bool nfc_ = false;
};

} // namespace ductl::engine
