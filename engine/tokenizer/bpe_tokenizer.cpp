#include "engine/tokenizer/bpe_tokenizer.hpp"

#include "engine/tokenizer/nfc.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace ductl::engine {

struct BpeTokenizer::Pass {
  PreTokenizer::Cutter cutter;
  std::vector<int> ids;
};

BpeTokenizer::BpeTokenizer(TokenizerParts parts)
    : bytes_(std::move(parts.bytes)),
      special_(bytes_.size()),
      pre_tokenizer_(std::move(parts.pre_tokenizer)),
      bpe_(parts.byte_ids, parts.merges),
      nfc_(parts.nfc) {
  for (const AddedToken& token : parts.added) {
    added_.emplace(token.content, token.id);
    special_[static_cast<std::size_t>(token.id)] = token.special;
    std::string buffer;
    if (token.normalized) {
      normalised_added_.insert(nfc_ ? nfc(token.content, buffer) : std::string_view(token.content), token.id);
    } else {
      raw_added_.insert(token.content, token.id);
    }
  }
  if (!parts.whole_pieces) return;
  for (std::size_t id = 0; id < bytes_.size(); ++id) {
    if (!bytes_[id].empty() && !added_.contains(bytes_[id])) whole_pieces_.emplace(bytes_[id], static_cast<int>(id));
  }
}

std::vector<int> BpeTokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::string repaired, composed;
  if (!is_utf8(text)) {
    repaired = repaired_utf8(text);
    text = repaired;
  }
  Pass pass{PreTokenizer::Cutter(pre_tokenizer_), {}};
  pass.ids.reserve(text.size() / 3 + 8);
  if (special == SpecialTokens::Match) {
    encode_matching(text, pass);
  } else {
    encode_plain(nfc_ ? nfc(text, composed) : text, pass);
  }
  return std::move(pass.ids);
}

namespace {

// Calls gap(text) for what lies between the tokens of `trie`, and token(id) for each of them.
template <class Gap, class Token> void split(const TokenTrie& trie, std::string_view text, Gap gap, Token token) {
  for (std::size_t done = 0; done < text.size();) {
    const TokenTrie::Match match = trie.find(text, done);
    if (match.begin > done) gap(text.substr(done, match.begin - done));
    if (match.length != 0) token(match.id);
    done = match.begin + match.length;
  }
}

} // namespace

// As transformers does: tokens that are not "normalized" are found in the raw text; what lies between them is normalised,
// and the others are found there.
void BpeTokenizer::encode_matching(std::string_view text, Pass& pass) const {
  const auto token = [&](int id) { pass.ids.push_back(id); };
  std::string composed;
  split(
      raw_added_, text,
      [&](std::string_view raw) {
        split(
            normalised_added_, nfc_ ? nfc(raw, composed) : raw, [&](std::string_view plain) { encode_plain(plain, pass); },
            token);
      },
      token);
}

void BpeTokenizer::encode_plain(std::string_view normalised, Pass& pass) const {
  pass.cutter.cut(normalised, [&](std::string_view piece) {
    if (!whole_pieces_.empty()) {
      if (const auto whole = whole_pieces_.find(piece); whole != whole_pieces_.end()) {
        pass.ids.push_back(whole->second);
        return;
      }
    }
    bpe_.encode(piece, pass.ids);
  });
}

std::string BpeTokenizer::decode(std::span<const int> ids, bool skip_special) const {
  std::string out;
  for (const int id : ids) {
    if (!skip_special || !is_special(id)) out += bytes(id);
  }
  return out;
}

std::string_view BpeTokenizer::bytes(int id) const {
  return id >= 0 && id < size() ? std::string_view(bytes_[static_cast<std::size_t>(id)]) : std::string_view();
}

std::optional<int> BpeTokenizer::id_of(std::string_view added_token) const {
  const auto found = added_.find(std::string(added_token));
  return found == added_.end() ? std::nullopt : std::optional(found->second);
}

bool BpeTokenizer::is_special(int id) const { return id >= 0 && id < size() && special_[static_cast<std::size_t>(id)]; }

} // namespace ductl::engine
