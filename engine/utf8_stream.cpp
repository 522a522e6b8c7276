#include "engine/utf8_stream.hpp"

#include "engine/tokenizer/utf8.hpp"

namespace ductl::engine {

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Kind::Incomplete) break;
    out += step.kind == Utf8Kind::Character ? rest.substr(0, static_cast<std::size_t>(step.length)) : kReplacementCharacter;
    rest.remove_prefix(static_cast<std::size_t>(step.length));
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

std::string Utf8Stream::flush() {
  const bool cut = !held_.empty();
  held_.clear();
  return cut ? std::string(kReplacementCharacter) : std::string();
}

} // namespace ductl::engine
