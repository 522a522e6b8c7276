#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/tokenizer/pre_tokenizer.hpp"

#include <fmt/format.h>
#include <pcre2.h>

namespace ductl::engine {
namespace {

constexpr std::size_t kPatternBytesMax = 16 * 1024;
// Ends patterns that explode; those in use need one step a character of the piece.
constexpr std::uint32_t kMatchLimit = 50'000'000, kHeapLimitKib = 64 * 1024;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

} // namespace

struct PreTokenizer::Pattern {
  std::unique_ptr<pcre2_code, FreeCode> code;
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Expected<void> PreTokenizer::add(const std::string& pattern, Syntax syntax) {
  if (pattern.empty() || pattern.size() > kPatternBytesMax) {
    return fail(ErrorCode::kTokenizer, fmt::format("a pattern of {} bytes; 1 to {} are taken", pattern.size(), kPatternBytesMax));
  }
  const std::uint32_t options = PCRE2_UTF | (syntax == Syntax::Literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C);
  int error = 0;
  std::size_t offset = 0;
  pcre2_code* code = pcre2_compile(units(pattern), pattern.size(), options, &error, &offset, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(error, text, std::size(text));
    return fail(ErrorCode::kTokenizer, fmt::format("the pattern {:?} is not understood at its byte {}: {}", pattern, offset,
                                                   reinterpret_cast<const char*>(text)));
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); // without it the same matches are found, slower
  patterns_.push_back({std::unique_ptr<pcre2_code, FreeCode>(code)});
  return {};
}

struct PreTokenizer::Cutter::State {
  std::vector<std::unique_ptr<pcre2_match_data, FreeMatch>> matches; // one a pattern: cutting recurses from one to the next
  std::unique_ptr<pcre2_match_context, FreeContext> context{pcre2_match_context_create(nullptr)};
};

PreTokenizer::Cutter::Cutter(const PreTokenizer& patterns) : patterns_(patterns), state_(std::make_unique<State>()) {
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKib);
  for (std::size_t i = 0; i < patterns.patterns_.size(); ++i) state_->matches.emplace_back(pcre2_match_data_create(1, nullptr));
}
PreTokenizer::Cutter::~Cutter() = default;

std::size_t PreTokenizer::Cutter::steps() const { return patterns_.patterns_.size(); }

PreTokenizer::Cutter::Span PreTokenizer::Cutter::next_match(std::size_t step, std::string_view text, std::size_t from) {
  const pcre2_code* code = patterns_.patterns_[step].code.get();
  pcre2_match_data* match = state_->matches[step].get();
  const std::uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY; // empty matches cut nothing
  int found = pcre2_match(code, units(text), text.size(), from, options, match, state_->context.get());
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) { // 32 KiB; no pattern in use comes near
    found = pcre2_match(code, units(text), text.size(), from, options | PCRE2_NO_JIT, match, state_->context.get());
  }
  // A pattern that explodes leaves the rest of the piece uncut: longer pieces, still the same bytes.
  if (found < 0) return {text.size(), text.size()};
  const std::size_t* ends = pcre2_get_ovector_pointer(match);
  return {ends[0], ends[1]};
}

} // namespace ductl::engine
