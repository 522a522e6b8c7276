// Any bytes are an answer or an error, and the same however they are cut.
#include "ductl/commands/chat_api.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

// The first byte says where to cut.
ductl::Expected<ductl::commands::Answer> read(std::string_view bytes, std::size_t cut) {
  ductl::commands::AnswerReader reader(nullptr);
  for (bool more = true; more && !bytes.empty();) {
    const std::string_view piece = bytes.substr(0, cut);
    more = reader.feed(piece);
    bytes.remove_prefix(piece.size());
  }
  return reader.finish();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read(bytes, bytes.size()), cut = read(bytes, 1 + data[0]);
  if (whole.has_value() != cut.has_value()) std::abort();
  if (whole && (whole->text != cut->text || whole->stats_line != cut->stats_line)) std::abort();
  return 0;
}
