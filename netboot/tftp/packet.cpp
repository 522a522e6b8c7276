#include "netboot/tftp/packet.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace ductl::netboot::tftp {
namespace {

constexpr std::size_t kErrorTextMax = 80;
constexpr std::uint32_t kWindowBlocksMax = 65535, kTimeoutMax = 255;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view until_zero(std::string_view text) { return text.substr(0, text.find('\0')); }

// The strings of a request, each ended by a zero. Nothing when the last one is not.
std::optional<std::vector<std::string_view>> strings_of(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    all.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return all;
}

std::string tidy_name(std::string_view name) {
  while (!name.empty() && name.back() == '\xff') name.remove_suffix(1);
  while (name.starts_with('/') || name.starts_with("./")) name.remove_prefix(name.front() == '/' ? 1 : 2);
  return std::string(name);
}

std::optional<std::uint32_t> number_in(std::string_view text, std::uint32_t low, std::uint32_t high) {
  std::uint32_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < low || value > high) return std::nullopt;
  return value;
}

// False when the value is nonsense. Options that we do not know are left out of the answer, which refuses them (RFC 2347).
bool read_option(std::string_view name, std::string_view value, Asked& asked) {
  const std::string key = lower(name);
  if (key == "tsize") return asked.size = number_in(value, 0, 0xffffffff).has_value();
  if (key == "blksize") return (asked.block_bytes = number_in(value, kBlockBytesMin, kBlockBytesMax)).has_value();
  if (key == "windowsize") return (asked.window_blocks = number_in(value, 1, kWindowBlocksMax)).has_value();
  if (key == "timeout") return (asked.timeout_s = number_in(value, 1, kTimeoutMax)).has_value();
  return true;
}

} // namespace

tl::expected<ReadRequest, Refusal> parse_request(ByteView bytes) {
  Reader in(bytes);
  const auto opcode = static_cast<Opcode>(in.u16());
  if (in.failed() || bytes.size() > kRequestBytesMax) return tl::unexpected(Refusal{});
  if (opcode == Opcode::Write) return tl::unexpected(Refusal{ErrorNumber::AccessViolation, "nothing is written here"});
  if (opcode != Opcode::Read) return tl::unexpected(Refusal{}); // an ERROR here would be answered by another one
  auto strings = strings_of(text_of(in.rest()));
  while (strings && strings->size() > 2 && strings->back().empty()) strings->pop_back(); // padding of some ROMs
  if (!strings || strings->size() < 2 || strings->size() % 2 != 0)
    return tl::unexpected(Refusal{ErrorNumber::IllegalOperation, "malformed request"});
  if (lower((*strings)[1]) != "octet") return tl::unexpected(Refusal{ErrorNumber::NotDefined, "only octet mode"});
  ReadRequest request{tidy_name((*strings)[0]), {}};
  for (std::size_t i = 2; i < strings->size(); i += 2)
    if (!read_option((*strings)[i], (*strings)[i + 1], request.asked))
      return tl::unexpected(Refusal{ErrorNumber::OptionRefused, "option out of range"});
  return request;
}

std::optional<Answer> parse_answer(ByteView bytes) {
  Reader in(bytes);
  const auto opcode = static_cast<Opcode>(in.u16());
  const std::uint16_t number = in.u16();
  if (in.failed()) return std::nullopt;
  if (opcode == Opcode::Ack) return Answer{Answer::Kind::Ack, number, {}};
  if (opcode == Opcode::Error)
    return Answer{Answer::Kind::Error, number, printable(until_zero(text_of(in.rest())), kErrorTextMax)};
  return std::nullopt;
}

Bytes data_packet(std::uint16_t block, ByteView data) {
  return Writer().u16(static_cast<std::uint16_t>(Opcode::Data)).u16(block).raw(data).take();
}

Bytes error_packet(ErrorNumber number, std::string_view text) {
  Writer out;
  out.u16(static_cast<std::uint16_t>(Opcode::Error)).u16(static_cast<std::uint16_t>(number));
  return out.text(text).zeros(1).take();
}

Bytes option_ack_packet(const std::vector<std::pair<std::string, std::uint64_t>>& options) {
  Writer out;
  out.u16(static_cast<std::uint16_t>(Opcode::OptionAck));
  for (const auto& [name, value] : options) out.text(name).zeros(1).text(std::to_string(value)).zeros(1);
  return out.take();
}

} // namespace ductl::netboot::tftp
