#include "ductl/boot/boot_diagnosis.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ductl::boot {
namespace {

using std::chrono::seconds;

seconds since(WallTime when, WallTime now) {
  return std::chrono::duration_cast<seconds>(std::max(now - when, WallTime::duration{}));
}

struct Case {
  const BootStory& story;
  const PortStory& port;
  const inventory::Duck& duck;
  const inventory::Port& nic;
  bool full_mode;
  seconds waited;
};

std::string mac_text(const inventory::Duck& duck) { return duck.mac ? inventory::to_string(*duck.mac) : "none"; }

// What the agent, the firmware and the wire said in so many words. given_up: it will say the same again.
BootVerdict of_trouble(const Case& c) {
  const BootTrouble& trouble = *c.story.trouble;
  const auto verdict = [&](std::string next, bool given_up) { return BootVerdict{trouble.text, std::move(next), given_up}; };
  if (trouble.kind == "wrong-port") return verdict("plug it in where the inventory has it, or correct its port there", true);
  if (trouble.kind == "other-system")
    return verdict(
        "its BIOS has lost its boot order (a flat coin cell?): set network boot first again and change the CR2032, or give "
        "it the image on a disk with `ductl image esp` (docs/bios.md)",
        true);
  if (trouble.kind == "boot-loop")
    return verdict("look at its screen while it boots; a memory module that is not seated, too little memory and a NIC without a "
                   "driver end like this",
                   true);
  if (trouble.kind == "conflict") return verdict("find the other machine with this address, or give the duck another one", true);
  if (trouble.kind == "no-request")
    return verdict(
        c.port.foreign_server.empty() ? "is a firewall of this machine dropping UDP 67 and 68?" : c.port.foreign_server, true);
  if (trouble.kind == "ignored") return verdict("give the duck another `chain` in the inventory, or change its BIOS", false);
  if (trouble.kind == "file-failed")
    return verdict("a bad cable or a firewall (UDP 69, the HTTP port) ends transfers like this", false);
  if (trouble.kind == "agent-failed") return verdict("it restarts by itself; its screen shows more", false);
  return verdict("it is worth a look if it comes again", false);
}

BootVerdict of_silence(const Case& c) {
  BootVerdict verdict{.reason = fmt::format("{} magic packets within {} s, and nothing heard of it: no DHCP, no agent",
                                            c.story.wakes, c.waited.count()),
                      .next = {}};
  if (!c.port.strangers.empty())
    verdict.next = fmt::format("on {} asks {}, which is in no inventory: is that this duck, whose MAC should be {}? otherwise ",
                               c.nic.name, fmt::join(c.port.strangers, ", "), mac_text(c.duck));
  verdict.next +=
      c.story.came_before
          ? "it has come up before, so it has no power, or has forgotten its BIOS settings (a flat coin cell): press its button; "
            "if it "
            "starts, change the CR2032, set network boot first and wake-on-LAN on again; if it stays dark, look at its power "
            "supply "
            "and its memory (docs/bios.md)"
          : fmt::format(
                "look that it has power, that its MAC address is {} and that it hangs on {}; press its button: if it boots "
                "now, wake-on-LAN is off in its BIOS; if it starts something else, network boot is not first (docs/bios.md)",
                mac_text(c.duck), c.nic.name);
  return verdict;
}

// Where it stands, and what stops ducks there.
BootVerdict of_step(const Case& c) {
  const auto stands = [&](const char* what, std::string next) {
    return BootVerdict{fmt::format("{} for {} s", what, c.waited.count()), std::move(next)};
  };
  switch (c.story.step) {
  case BootStep::None: return {};
  case BootStep::Woken: return of_silence(c);
  case BootStep::Asked:
    return stands("asks for an address", c.full_mode ? "is a firewall of this machine dropping UDP 67 and 68?"
                                                     : "the other DHCP server gives it no address: has it one for this MAC?");
  case BootStep::Leased:
    return stands("has an address and fetches nothing",
                  "is a firewall of this machine dropping UDP 69 or the boot server's HTTP port?");
  case BootStep::Loader:
    return stands("runs iPXE and has no kernel yet",
                  "look at its screen; a NIC that iPXE has no driver for boots with chain = \"uki\"");
  case BootStep::Image:
    return stands("has its kernel and no agent yet",
                  "look at its screen: a NIC without a driver in the image, too little memory and a panic end like this");
  case BootStep::Agent: return stands("its agent was there and does not answer", "look at its cable, and at its screen");
  }
  return {};
}

} // namespace

BootPatience patience_of(const inventory::Limits& limits) {
  const seconds boot(limits.boot_timeout_s);
  return {.silence = std::min(BootPatience{}.silence, boot), .boot = boot};
}

BootVerdict diagnose_boot(const BootStories& stories, std::size_t number, const inventory::Flock& flock,
                          const BootPatience& patience, WallTime now) {
  const inventory::Duck& duck = flock.ducks[number];
  const auto port = static_cast<std::size_t>(duck.port_index);
  const BootStory& story = stories.ducks[number];
  const Case c{story, stories.ports[port], duck, flock.ports[port], !flock.netboot.proxy_dhcp, since(story.since, now)};
  BootVerdict verdict = story.trouble ? of_trouble(c) : of_step(c);
  const bool waited_for = story.first_wake != WallTime{};
  const seconds waking = waited_for ? since(story.first_wake, now) : seconds(0);
  const bool silent = story.step <= BootStep::Woken && !story.trouble;
  if (waking >= patience.boot || (silent && waking >= patience.silence)) verdict.given_up = true;
  return verdict;
}

bool is_under_way(const BootStory& story, const BootVerdict& verdict, const BootPatience& patience, WallTime now) {
  const bool boots = story.step >= BootStep::Woken && story.step <= BootStep::Image;
  return boots && !verdict.given_up && since(story.since, now) < patience.boot;
}

bool is_sought_everywhere(const BootStory& story, const BootPatience& patience, WallTime now) {
  return story.step <= BootStep::Woken && !story.trouble && since(story.first_wake, now) * 3 >= patience.silence;
}

} // namespace ductl::boot
