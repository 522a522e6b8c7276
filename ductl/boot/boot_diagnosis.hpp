// Why a duck that was woken is not up yet, from what was seen: the cause, how sure it is that waiting is of no use, and what a
// person should do. Pure.
//
// A duck has no second wire, so nothing tells a dead box from one that has forgotten its BIOS settings; what is said then is what
// can be told apart by pressing its button. The order of causes is that of docs/boot.md.
#pragma once

#include "ductl/boot/boot_story.hpp"

namespace ductl::boot {

struct BootPatience {
  std::chrono::seconds silence{90}; // from the first magic packet to the first word of anything
  std::chrono::seconds boot{180};   // limits.boot_timeout_s, from the first magic packet to the agent
};
[[nodiscard]] BootPatience patience_of(const inventory::Limits& limits);

struct BootVerdict {
  std::string reason;    // "" = nothing to say: it never was woken
  std::string next;      // for a person; "" = wait
  bool given_up = false; // more waiting is of no use
};

[[nodiscard]] BootVerdict diagnose_boot(const BootStories& stories, std::size_t duck, const inventory::Flock& flock,
                                        const BootPatience& patience, WallTime now);

// It was seen on its way to its agent, or was woken, and lately enough that its agent may still come.
[[nodiscard]] bool is_under_way(const BootStory& story, const BootVerdict& verdict, const BootPatience& patience, WallTime now);

// From here on, magic packets go out of every port: a duck that hangs in another broadcast domain than the inventory says starts
// then, and asks where it is.
[[nodiscard]] bool is_sought_everywhere(const BootStory& story, const BootPatience& patience, WallTime now);

} // namespace ductl::boot
