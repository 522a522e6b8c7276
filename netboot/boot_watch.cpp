#include "netboot/boot_watch.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::netboot {
namespace {

std::uint64_t number_of(const Mac& mac) {
  std::uint64_t number = 0;
  for (const std::uint8_t byte : mac) number = number << 8 | byte;
  return number;
}

const char* last_seen(BootStage stage) {
  switch (stage) {
  case BootStage::None:
  case BootStage::Firmware: return "its firmware came for an address, and not for a loader";
  case BootStage::Loader: return "iPXE ran and no kernel was fetched";
  case BootStage::Kernel:
    return "the kernel was fetched and no agent came up: a panic, too little memory, or no driver for its NIC";
  case BootStage::Agent: break;
  }
  return "its agent ran";
}

} // namespace

BootWatch::BootWatch(const BootPlan& plan, std::vector<BootEvent>& events)
    : plan_(plan), events_(events), lives_(plan.ducks.size()), foreign_(plan.ports.size()) {}

void BootWatch::discover(int duck, int port, BootStage stage, std::uint32_t xid, const char* client, Instant now) {
  Life& life = lives_[duck];
  ++life.discovers;
  note_starvation(duck, port, now);
  if (life.stage != BootStage::None && life.xid == xid && life.stage >= stage) return; // asks again, since it did not hear us
  const bool anew = stage <= life.stage;
  if (anew || life.stage == BootStage::None) {
    started(duck, port, now);
    add(BootEventKind::Asked, port, duck, plan_.ducks[duck].mac,
        fmt::format("{} starts to boot on {} ({})", plan_.ducks[duck].name, plan_.ports[port].name, client), now);
  }
  life.stage = stage;
  life.xid = xid;
}

void BootWatch::started(int duck, int port, Instant now) {
  Life& life = lives_[duck];
  const LoopRule& rule = plan_.loop_rule;
  std::erase_if(life.starts, [&](Instant start) { return now - start > rule.window; });
  life.starts.push_back(now);
  if (static_cast<int>(life.starts.size()) < rule.starts) return;
  const double minutes = std::chrono::duration<double, std::ratio<60>>(now - life.starts.front()).count();
  add(BootEventKind::BootLoop, port, duck, plan_.ducks[duck].mac,
      fmt::format("{} has started to boot {} times in {:.1f} minutes without reaching its agent; last time {}",
                  plan_.ducks[duck].name, life.starts.size(), minutes, last_seen(life.stage)),
      now);
  life.starts.erase(life.starts.begin()); // told again at the next start, as long as they follow each other so fast
}

// Four DISCOVERs without a REQUEST: we are not heard, or another server's offer confuses the client (bootimus#77, edk2#6944).
void BootWatch::note_starvation(int duck, int port, Instant now) {
  Life& life = lives_[duck];
  if (life.discovers < kDiscoversMax || life.no_request_told) return;
  life.no_request_told = true;
  const std::string other = foreign_[port] ? fmt::format("; {} answers as well: switch that DHCP server off, or {}",
                                                         inventory::to_string(*foreign_[port]),
                                                         plan_.ports[port].mode == DhcpMode::Full
                                                             ? "use proxy mode beside it"
                                                             : "set its options for network boot, or use full mode without it")
                                           : std::string("; our answers do not reach it, or its firmware does not take them");
  add(BootEventKind::NoRequest, port, duck, plan_.ducks[duck].mac,
      fmt::format("{}: {} DISCOVERs answered, no REQUEST{}", plan_.ducks[duck].name, life.discovers, other), now);
}

void BootWatch::request(int duck) {
  lives_[duck].discovers = 0;
  lives_[duck].no_request_told = false;
}

void BootWatch::kernel_fetched(int duck) { lives_[duck].stage = std::max(lives_[duck].stage, BootStage::Kernel); }

void BootWatch::agent_seen(int duck) { lives_[duck] = Life{.stage = BootStage::Agent, .xid = 0, .starts = {}}; }

void BootWatch::unknown_mac(int port, const Mac& mac, const char* client, Instant now) {
  if (!is_news(macs_, {port, number_of(mac)}, now)) return;
  add(BootEventKind::UnknownMac, port, -1, mac,
      fmt::format("unknown MAC {} on {} asks to boot ({}): add it to the inventory?", inventory::to_string(mac),
                  plan_.ports[port].interface, client),
      now);
}

void BootWatch::wrong_port(int duck, int port, Instant now) {
  const BootDuck& d = plan_.ducks[duck];
  if (!is_news(misplaced_, {port, number_of(d.mac)}, now)) return;
  add(BootEventKind::WrongPort, port, duck, d.mac,
      fmt::format("{} asks on {}, and the inventory has it on {}: move its cable, or its line in the inventory", d.name,
                  plan_.ports[port].name, plan_.ports[d.port_index].name),
      now);
}

void BootWatch::foreign_server(int port, Ipv4 server, const char* evidence, Instant now) {
  foreign_[port] = server;
  if (!is_news(servers_, {port, server}, now)) return;
  // In proxy mode another server is what there should be; it is told all the same, once, as the address ducks depend on.
  add(BootEventKind::ForeignServer, port, -1, {},
      fmt::format("DHCP server {} answers on {} ({}){}", inventory::to_string(server), plan_.ports[port].interface, evidence,
                  plan_.ports[port].mode == DhcpMode::Full ? ": only one may give out addresses; switch it off, or use proxy mode"
                                                           : ""),
      now);
}

bool BootWatch::is_news(std::map<Stranger, Instant>& told, Stranger who, Instant now) const {
  std::erase_if(told, [&](const auto& entry) { return now - entry.second >= kStrangerRepeat; });
  if (told.contains(who) || told.size() >= kStrangersMax) return false;
  told.emplace(who, now);
  return true;
}

void BootWatch::add(BootEventKind kind, int port, int duck, const Mac& mac, std::string text, Instant now) {
  events_.push_back({.kind = kind,
                     .when = now,
                     .port_index = port,
                     .duck_index = duck,
                     .mac = mac,
                     .address = 0,
                     .file = {},
                     .text = std::move(text)});
}

} // namespace ductl::netboot
