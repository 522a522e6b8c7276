// tokenizer.json from anywhere, then text through what it describes. Input: the JSON, a zero byte, the text.
#include "engine/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <cstdlib>

using ductl::engine::SpecialTokens;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const std::string_view text = input.substr(std::min(end + 1, size));
  const auto tokenizer = ductl::engine::parse_tokenizer(input.substr(0, end), "fuzz");
  if (!tokenizer) return 0;
  for (const int id : (*tokenizer)->encode(text, SpecialTokens::Ignore)) {
    if (id < 0 || id >= (*tokenizer)->size() || (*tokenizer)->is_special(id)) std::abort();
  }
  const std::vector<int> ids = (*tokenizer)->encode(text, SpecialTokens::Match);
  (void)(*tokenizer)->decode(ids, true);
  return 0;
}
