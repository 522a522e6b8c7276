#include "tests/image/cpio_reader.hpp"

#include <charconv>
#include <stdexcept>

namespace ductl::image::test {
namespace {

constexpr std::size_t kFieldsAt = 6, kFieldLetters = 8, kFields = 13, kHeaderBytes = kFieldsAt + kFields * kFieldLetters;

std::uint32_t field(std::string_view header, std::size_t index) {
  const std::string_view text = header.substr(kFieldsAt + index * kFieldLetters, kFieldLetters);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) throw std::runtime_error("cpio: a field is no number");
  return value;
}

std::size_t round_up(std::size_t at) { return (at + 3) / 4 * 4; }

std::string_view part(std::string_view archive, std::size_t at, std::size_t bytes) {
  if (at > archive.size() || bytes > archive.size() - at) throw std::runtime_error("cpio: cut off");
  return archive.substr(at, bytes);
}

} // namespace

std::vector<ReadEntry> read_cpio(std::string_view archive) {
  std::vector<ReadEntry> entries;
  for (std::size_t at = 0;;) {
    const std::string_view header = part(archive, at, kHeaderBytes);
    if (!header.starts_with("070701")) throw std::runtime_error("cpio: no header where one must be");
    const std::string_view name = part(archive, at + kHeaderBytes, field(header, 11));
    if (name.empty() || name.find('\0') != name.size() - 1) throw std::runtime_error("cpio: a name without its end");
    const std::size_t data_at = round_up(at + kHeaderBytes + name.size());
    const std::string_view data = part(archive, data_at, field(header, 6));
    at = round_up(data_at + data.size());
    if (name == std::string_view("TRAILER!!!", 11)) {
      if (at != archive.size()) throw std::runtime_error("cpio: bytes behind the end");
      return entries;
    }
    entries.push_back(
        {{std::string(name.substr(0, name.size() - 1)), field(header, 1), std::string(data), field(header, 9), field(header, 10)},
         field(header, 0),
         field(header, 2),
         field(header, 3),
         field(header, 4),
         field(header, 5)});
  }
}

std::vector<CpioEntry> cpio_entries(std::string_view archive) {
  std::vector<CpioEntry> entries;
  for (ReadEntry& read : read_cpio(archive)) entries.push_back(std::move(read.entry));
  return entries;
}

} // namespace ductl::image::test
