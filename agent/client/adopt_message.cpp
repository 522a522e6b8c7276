#include "agent/client/adopt_message.hpp"

#include "agent/client/message_fields.hpp"

#include <algorithm>

namespace ductl::agent {
namespace {

constexpr std::size_t kNameBytesMax = 63, kKeyDigits = 64, kImageDigits = 64;
constexpr int kCoresMax = 4096, kLinkMbpsMax = 1'000'000;
constexpr std::int64_t kTimeMsMax = 253'402'300'800'000; // the year 10000

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

} // namespace

std::string adoption_text(const Adoption& adoption) {
  return json{{"flock", adoption.flock},
              {"name", adoption.name},
              {"key", adoption.key},
              {"memory_bytes", adoption.expected.memory_bytes},
              {"cores", adoption.expected.cores},
              {"link_mbps", adoption.expected.link_mbps},
              {"image", adoption.expected.image},
              {"time_ms", adoption.time_ms}}
      .dump();
}

Expected<Adoption> parse_adoption(std::string_view text) {
  const auto object = parse_object(text);
  if (!object) return tl::unexpected(object.error());
  Adoption adoption;
  Fields fields(*object);
  fields.take("flock", adoption.flock);
  fields.take("name", adoption.name);
  fields.take("key", adoption.key);
  fields.take<std::uint64_t>("memory_bytes", adoption.expected.memory_bytes);
  fields.take<int>("cores", adoption.expected.cores, 0, kCoresMax);
  fields.take<int>("link_mbps", adoption.expected.link_mbps, 0, kLinkMbpsMax);
  fields.take("image", adoption.expected.image);
  fields.take<std::int64_t>("time_ms", adoption.time_ms, 0, kTimeMsMax);
  if (!is_name(adoption.flock)) fields.note("'flock' must be 1 to 63 of a-z, 0-9 and -");
  if (!is_name(adoption.name)) fields.note("'name' must be 1 to 63 of a-z, 0-9 and -");
  if (!is_hex(adoption.key, kKeyDigits)) fields.note("'key' must be 64 lower-case hex digits");
  if (!adoption.expected.image.empty() && !is_hex(adoption.expected.image, kImageDigits))
    fields.note("'image' must be 64 lower-case hex digits, or empty");
  return result(fields, std::move(adoption));
}

} // namespace ductl::agent
