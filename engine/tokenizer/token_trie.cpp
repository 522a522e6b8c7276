#include "engine/tokenizer/token_trie.hpp"

namespace ductl::engine {

std::uint32_t TokenTrie::child_of(std::uint32_t node, char byte) const {
  std::uint32_t child = nodes_[node].child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

void TokenTrie::insert(std::string_view text, int id) {
  begins_[static_cast<unsigned char>(text[0])] = true;
  std::uint32_t at = 0;
  for (const char byte : text) {
    std::uint32_t child = child_of(at, byte);
    if (child == 0) {
      child = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({-1, 0, nodes_[at].child, byte});
      nodes_[at].child = child;
    }
    at = child;
  }
  nodes_[at].id = id;
}

TokenTrie::Match TokenTrie::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    Match match{begin, 0, -1};
    std::uint32_t at = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      at = child_of(at, text[i]);
      if (at == 0) break;
      if (nodes_[at].id >= 0) match.length = i + 1 - begin, match.id = nodes_[at].id;
    }
    if (match.length != 0) return match;
  }
  return {text.size(), 0, -1};
}

} // namespace ductl::engine
