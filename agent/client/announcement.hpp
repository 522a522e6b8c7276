// What a netbooted duck sends by itself, over UDP, to its boot host: that it is up, or why it is not. One datagram of JSON each.
//
// Nothing is answered and nothing is proved: anybody on the boot network can send one. A reader takes it as a hint (a hello
// saves the wait until the next look; a failure's text is shown), and asks the duck itself. docs/boot.md.
#pragma once

#include "inventory/error.hpp"
#include "inventory/inventory.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace ductl::agent {

inline constexpr std::uint16_t kAnnouncementPort = 7420;      // UDP, of the boot host
inline constexpr std::size_t kAnnouncementBytesMax = 1024;    // of a datagram; longer ones are not read
inline constexpr std::size_t kAnnouncementTextBytesMax = 400; // of `text`; longer ones are cut where they are made
inline constexpr int kAnnouncementVersion = 1;

enum class AnnouncementKind {
  Hello,   // the control plane answers; repeated until somebody adopts the duck
  Failure, // it cannot go on; `text` says why, and it restarts soon
  Notice,  // worth a look, and it goes on: `text` says what
  Leaving, // told to restart or to switch off
};
[[nodiscard]] const char* to_string(AnnouncementKind kind); // "hello", "failure", "notice", "leaving"

struct Announcement {
  AnnouncementKind kind = AnnouncementKind::Hello;
  inventory::Mac mac{};           // of the NIC that it booted from; zeros where there is none
  inventory::Ipv4 address = 0;    // 0 = it has none
  std::uint16_t control_port = 0; // 0 = nobody listens
  std::string boot_id;            // 16 hex digits, new with every boot
  std::string image, agent;       // image id or ""; version
  std::uint64_t uptime_ms = 0;    // of the machine
  std::string text;               // for a person, printable; "" in a hello
  bool operator==(const Announcement&) const = default;
};

[[nodiscard]] std::string announcement_text(const Announcement& announcement); // at most kAnnouncementBytesMax
// Refuses another version, unknown kinds, what is too long, and text that is not printable ASCII.
[[nodiscard]] Expected<Announcement> parse_announcement(std::string_view datagram);

} // namespace ductl::agent
