// What was seen of each duck's way from a dark box to its agent: facts and when they were seen, nothing concluded. Plain values
// and pure functions; kept in the state folder (boots.json) by whoever serves boots, so that `ductl status` can tell of it.
#pragma once

#include "netboot/boot_events.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::boot {

using WallTime = std::chrono::system_clock::time_point;

// How far the latest boot came.
enum class BootStep {
  None,   // nothing was seen, ever or since it was switched off
  Woken,  // magic packets were sent
  Asked,  // its firmware looks for an address
  Leased, // and has one
  Loader, // it fetches iPXE or its script
  Image,  // it fetches the kernel, or the kernel and initrd in one
  Agent,  // the agent runs: it asked for its address, announced itself, or answered
};
[[nodiscard]] std::string_view to_string(BootStep step);

// The last thing that deserves a look, in the words of the event (or of the agent itself).
struct BootTrouble {
  std::string kind; // name_of() of the event, or "agent-failed"
  std::string text;
  WallTime when{};
  bool operator==(const BootTrouble&) const = default;
};

struct BootStory {
  std::string duck;
  BootStep step = BootStep::None;
  WallTime since{}; // of the step
  int wakes = 0;    // magic packets since it was last heard of
  WallTime first_wake{};
  int starts = 0;           // of its firmware since its agent was last seen
  bool came_before = false; // its agent has been seen, in this boot or another
  std::optional<BootTrouble> trouble = {};
  bool operator==(const BootStory&) const = default;
};

// What was seen on a port that belongs to no duck.
struct PortStory {
  std::string port;
  std::string foreign_server = {};         // another DHCP server, in the event's words
  std::vector<std::string> strangers = {}; // MACs that are not in the inventory and asked to boot
  bool operator==(const PortStory&) const = default;
};

struct BootStories {
  std::vector<BootStory> ducks; // in the inventory's order
  std::vector<PortStory> ports;
  bool operator==(const BootStories&) const = default;
};

[[nodiscard]] BootStories untold(const inventory::Flock& flock);

// "asked", "boot-loop", ...: stable, for scripts.
[[nodiscard]] std::string_view name_of(netboot::BootEventKind kind);

void note_event(BootStories& stories, const netboot::BootEvent& event, const netboot::BootNames& names, WallTime now);
void note_wake(BootStories& stories, std::size_t duck, WallTime now);
// The wait for a duck begins: what was seen of an earlier boot is no sign of this one. That it came before stays.
void note_wanted(BootStories& stories, std::size_t duck, WallTime now);
void note_agent(BootStories& stories, std::size_t duck, WallTime now);
// It was switched off on purpose: nothing of this boot is a sign any more. That it came before stays, and for how long it is
// waited for.
void note_off(BootStories& stories, std::size_t duck, WallTime now);
// The agent itself said that it can't go on.
void note_agent_failed(BootStories& stories, std::size_t duck, const std::string& reason, WallTime now);

// boots.json and back. Ducks and ports are matched by name: what the inventory no longer has is dropped, what the text lacks or
// cannot be read is untold.
[[nodiscard]] std::string stories_text(const BootStories& stories);
[[nodiscard]] BootStories parse_stories(const std::string& text, const inventory::Flock& flock);

} // namespace ductl::boot
