#include "engine/tokenizer/byte_alphabet.hpp"

#include "engine/tokenizer/utf8.hpp"

#include <array>

namespace ductl::engine {
namespace {

constexpr char32_t kShifted = 0x100; // bytes without a glyph of their own take the code points from here on, in order
constexpr int kShiftedCount = 68;

constexpr bool is_its_own_letter(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<char32_t, 256> letters{};
  std::array<std::int16_t, kShifted + kShiftedCount> bytes{}; // -1: not a letter
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.bytes) byte = -1;
  char32_t next = kShifted;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t letter = is_its_own_letter(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.letters[static_cast<std::size_t>(byte)] = letter;
    alphabet.bytes[letter] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

} // namespace

std::string letter_of_byte(std::uint8_t byte) {
  const char32_t letter = kAlphabet.letters[byte];
  if (letter < 0x80) return {static_cast<char>(letter)};
  return {static_cast<char>(0xC0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3F))}; // all below U+0800
}

std::optional<std::string> bytes_of_letters(std::string_view letters) {
  std::string out;
  while (!letters.empty()) {
    const Utf8Step step = utf8_step(letters);
    if (step.kind != Utf8Kind::Character) return std::nullopt;
    const char32_t letter = utf8_code_point(letters.substr(0, static_cast<std::size_t>(step.length)));
    if (letter >= kAlphabet.bytes.size() || kAlphabet.bytes[letter] < 0) return std::nullopt;
    out += static_cast<char>(kAlphabet.bytes[letter]);
    letters.remove_prefix(static_cast<std::size_t>(step.length));
  }
  return out;
}

} // namespace ductl::engine
