// Cuts text into the pieces within which merges happen.
//
// A list of patterns, each applied to every piece that the one before left over: its matches and the gaps between them
// become pieces ("Isolated"). A pattern sees nothing of the text around its piece. Immutable after the last add().
#pragma once

#include "inventory/error.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::engine {

class PreTokenizer {
public:
  enum class Syntax { Regex, Literal };

  PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // kTokenizer, naming the pattern and the place in it, when it is not a pattern that PCRE2 understands.
  [[nodiscard]] Expected<void> add(const std::string& pattern, Syntax syntax);

  // One use of the patterns; a tokenizer's threads have one each.
  class Cutter {
  public:
    explicit Cutter(const PreTokenizer& patterns);
    ~Cutter();
    Cutter(const Cutter&) = delete;
    Cutter& operator=(const Cutter&) = delete;
    // Calls sink(piece) for each piece, in order; none is empty. `text` must be UTF-8.
    template <class Sink> void cut(std::string_view text, Sink&& sink) { cut_from(0, text, sink); }

  private:
    struct Span {
      std::size_t begin, end; // begin == end: no match
    };
    [[nodiscard]] std::size_t steps() const;
    [[nodiscard]] Span next_match(std::size_t step, std::string_view text, std::size_t from);
    template <class Sink> void cut_from(std::size_t step, std::string_view text, Sink& sink);

    const PreTokenizer& patterns_;
    struct State;
    std::unique_ptr<State> state_;
  };

private:
  struct Pattern;
  std::vector<Pattern> patterns_;
};

template <class Sink> void PreTokenizer::Cutter::cut_from(std::size_t step, std::string_view text, Sink& sink) {
  if (text.empty()) return;
  if (step == steps()) {
    sink(text);
    return;
  }
  std::size_t done = 0;
  for (;;) {
    const Span match = next_match(step, text, done);
    if (match.begin == match.end) break;
    cut_from(step + 1, text.substr(done, match.begin - done), sink);
    cut_from(step + 1, text.substr(match.begin, match.end - match.begin), sink);
    done = match.end;
  }
  cut_from(step + 1, text.substr(done), sink);
}

} // namespace ductl::engine
