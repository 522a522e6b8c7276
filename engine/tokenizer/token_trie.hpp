// Finds added tokens in text: at each place the longest one, from left to right.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ductl::engine {

class TokenTrie {
public:
  struct Match {
    std::size_t begin = 0, length = 0;
    int id = -1;
  };

  void insert(std::string_view text, int id); // text is not empty; of equal texts the last id counts
  [[nodiscard]] bool empty() const { return nodes_.size() == 1; }
  // The first match at or after `from`; length 0 when there is none.
  [[nodiscard]] Match find(std::string_view text, std::size_t from) const;

private:
  struct Node {
    int id = -1;                          // of the token that ends here
    std::uint32_t child = 0, sibling = 0; // 0 = none: the root is nobody's child
    char byte = 0;
  };
  [[nodiscard]] std::uint32_t child_of(std::uint32_t node, char byte) const;

  std::vector<Node> nodes_{Node{}};
  std::array<bool, 256> begins_{}; // whether a token begins with this byte
};

} // namespace ductl::engine
