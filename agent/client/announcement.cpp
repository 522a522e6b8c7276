#include "agent/client/announcement.hpp"

#include "agent/client/message_fields.hpp"

#include <algorithm>
#include <array>

namespace ductl::agent {
namespace {

constexpr std::array<AnnouncementKind, 4> kKinds{AnnouncementKind::Hello, AnnouncementKind::Failure, AnnouncementKind::Notice,
                                                 AnnouncementKind::Leaving};
constexpr std::size_t kIdBytesMax = 64;

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; });
}

// '"' and '\' take two bytes in JSON, so that what is left always fits the datagram.
std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string out(text.substr(0, bytes_max));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c >= 0x7f; }, '?');
  std::replace(out.begin(), out.end(), '"', '\'');
  std::replace(out.begin(), out.end(), '\\', '/');
  return out;
}

} // namespace

const char* to_string(AnnouncementKind kind) {
  switch (kind) {
  case AnnouncementKind::Hello: return "hello";
  case AnnouncementKind::Failure: return "failure";
  case AnnouncementKind::Notice: return "notice";
  case AnnouncementKind::Leaving: break;
  }
  return "leaving";
}

std::string announcement_text(const Announcement& announcement) {
  return json{{"ductl_duck", kAnnouncementVersion},
              {"kind", to_string(announcement.kind)},
              {"mac", inventory::to_string(announcement.mac)},
              {"address", inventory::to_string(announcement.address)},
              {"control_port", announcement.control_port},
              {"boot_id", printable(announcement.boot_id, kIdBytesMax)},
              {"image", printable(announcement.image, kIdBytesMax)},
              {"agent", printable(announcement.agent, kIdBytesMax)},
              {"uptime_ms", announcement.uptime_ms},
              {"text", printable(announcement.text, kAnnouncementTextBytesMax)}}
      .dump();
}

Expected<Announcement> parse_announcement(std::string_view datagram) {
  if (datagram.size() > kAnnouncementBytesMax) return bad("longer than an announcement is");
  const auto object = parse_object(datagram);
  if (!object) return tl::unexpected(object.error());
  Announcement out;
  int version = 0;
  std::string kind, mac, address;
  Fields fields(*object);
  fields.take<int>("ductl_duck", version);
  if (!fields.error() && version != kAnnouncementVersion)
    return fail(ErrorCode::kAgentVersion,
                fmt::format("an announcement of version {}, this program reads {}", version, kAnnouncementVersion));
  fields.take("kind", kind, 16);
  fields.take("mac", mac, 17);
  fields.take("address", address, 15);
  fields.take<std::uint16_t>("control_port", out.control_port);
  fields.take("boot_id", out.boot_id, kIdBytesMax);
  fields.take("image", out.image, kIdBytesMax);
  fields.take("agent", out.agent, kIdBytesMax);
  fields.take<std::uint64_t>("uptime_ms", out.uptime_ms);
  fields.take("text", out.text, kAnnouncementTextBytesMax);
  const auto known = std::find_if(kKinds.begin(), kKinds.end(), [&](AnnouncementKind k) { return kind == to_string(k); });
  if (known == kKinds.end()) fields.note("'kind' must be hello, failure, notice or leaving");
  const auto parsed_mac = inventory::parse_mac(mac);
  const auto parsed_address = inventory::parse_ipv4(address);
  if (!parsed_mac) fields.note("'mac' is no MAC address");
  if (!parsed_address) fields.note("'address' is no IPv4 address");
  for (const std::string* text : {&out.boot_id, &out.image, &out.agent, &out.text})
    if (!is_printable(*text)) fields.note("text that is not printable ASCII");
  if (fields.error()) return bad(*fields.error());
  out.kind = *known;
  out.mac = *parsed_mac;
  out.address = *parsed_address;
  return out;
}

} // namespace ductl::agent
