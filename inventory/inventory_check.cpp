#include "inventory/draft.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace ductl::inventory {
namespace {

Ipv4 subnet_mask(int prefix_length) { return prefix_length == 0 ? 0 : ~Ipv4{0} << (32 - prefix_length); }
Ipv4 network(const Port& port) { return port.address & subnet_mask(port.prefix_length); }
Ipv4 broadcast(const Port& port) { return network(port) | ~subnet_mask(port.prefix_length); }
bool inside(const Port& port, Ipv4 address) { return (address & subnet_mask(port.prefix_length)) == network(port); }
bool is_loopback(Ipv4 address) { return address >> 24 == 127; }
std::string subnet_text(const Port& port) { return fmt::format("{}/{}", to_string(network(port)), port.prefix_length); }

// Remembers the first user of each value; a second one is reported with the place of the first.
class Uses {
public:
  Uses(std::string what, FaultLog& faults) : what_(std::move(what)), faults_(faults) {}
  void take(const std::string& value, const std::string& owner, const Mark& mark) {
    const auto [first, fresh] = users_.try_emplace(value, User{owner, mark.line});
    if (fresh) return;
    const bool names = owner == value;
    faults_.add(ErrorCode::kInventoryDuplicate, mark, fmt::format("duplicate {} {}{}", what_, value, names ? "" : " of " + owner),
                names ? fmt::format("first used in line {}", first->second.line)
                      : fmt::format("also used by {} (line {})", first->second.owner, first->second.line),
                fmt::format("give each its own {}", what_));
  }

private:
  struct User {
    std::string owner;
    std::size_t line;
  };
  std::string what_;
  FaultLog& faults_;
  std::map<std::string, User> users_;
};

void check_ports(const Draft& draft, FaultLog& faults) {
  Uses names("port name", faults);
  const std::vector<Port>& ports = draft.flock.ports;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const Port& port = ports[i];
    const PortMarks& marks = draft.port_marks[i];
    if (!port.name.empty()) names.take(port.name, port.name, marks.name);
    if (port.address == 0) continue; // reported when it was read
    if (port.address == network(port) || port.address == broadcast(port))
      faults.add(ErrorCode::kInventoryValue, marks.address,
                 fmt::format("{} is the {} address of its subnet", to_string(port.address),
                             port.address == network(port) ? "network" : "broadcast"),
                 "the host's own address is wanted here",
                 fmt::format("for instance \"{}/{}\"", to_string(network(port) + 1), port.prefix_length));
    if (port.fanout == Fanout::Broadcast && is_loopback(port.address))
      faults.add(ErrorCode::kInventoryValue, marks.fanout, "loopback has no broadcast", {},
                 "set fanout = \"unicast\" for ports of a local flock");
    for (std::size_t j = 0; j < i; ++j) {
      if (ports[j].address == 0 || (!inside(ports[j], port.address) && !inside(port, ports[j].address))) continue;
      faults.add(ErrorCode::kInventoryValue, marks.address,
                 fmt::format("the subnet {} of {} overlaps {} of {}", subnet_text(port), port.name, subnet_text(ports[j]),
                             ports[j].name),
                 fmt::format("{} is in line {}", ports[j].name, draft.port_marks[j].address.line),
                 "each port is a broadcast domain of its own and needs a subnet of its own");
      break;
    }
  }
}

// Machines that are woken or booted are reached through a network card; processes of this machine need neither.
void check_machines(const Draft& draft, FaultLog& faults) {
  const Flock& flock = draft.flock;
  if (has_local_ducks(flock)) {
    if (flock.netboot.enabled)
      faults.add(ErrorCode::kInventoryValue, draft.netboot_mark, "ducks that are processes of this machine boot nothing",
                 "power.driver is \"process\"", "set power.driver = \"wake-on-lan\" for machines, or take the line out");
    return;
  }
  if (flock.power.kind != PowerKind::WakeOnLan && !flock.netboot.enabled) return;
  for (std::size_t i = 0; i < flock.ports.size(); ++i)
    if (is_loopback(flock.ports[i].address))
      faults.add(ErrorCode::kInventoryValue, draft.port_marks[i].interface,
                 fmt::format("no machine can be woken or booted through loopback, which {} is", flock.ports[i].name), {},
                 "name the network card that its ducks hang on, with the host's address there");
}

void check_duck_address(const Draft& draft, std::size_t index, FaultLog& faults) {
  const Duck& duck = draft.flock.ducks[index];
  const DuckMarks& marks = draft.duck_marks[index];
  if (!marks.port_known || !marks.address_known) return;
  const Port& port = draft.flock.ports[static_cast<std::size_t>(duck.port_index)];
  if (port.address == 0) return;
  const std::string address = to_string(duck.address);
  std::string fault, next;
  if (!inside(port, duck.address)) {
    fault = fmt::format("{} of {} is outside the subnet {} of {}", address, duck.name, subnet_text(port), port.name);
    next = fmt::format("use an address from {} to {}", to_string(network(port) + 1), to_string(broadcast(port) - 1));
  } else if (duck.address == network(port) || duck.address == broadcast(port)) {
    fault = fmt::format("{} of {} is the {} address of {}", address, duck.name,
                        duck.address == network(port) ? "network" : "broadcast", subnet_text(port));
    next = fmt::format("use an address from {} to {}", to_string(network(port) + 1), to_string(broadcast(port) - 1));
  } else if (duck.address == port.address) {
    fault = fmt::format("{} of {} is the host's own address on {}", address, duck.name, port.name);
    next = "give the duck another one";
  }
  if (!fault.empty()) faults.add(ErrorCode::kInventoryValue, marks.address, fault, {}, next);
}

void check_ducks(const Draft& draft, FaultLog& faults) {
  Uses names("name", faults), addresses("address", faults), macs("MAC address", faults);
  const Flock& flock = draft.flock;
  const bool needs_mac = !has_local_ducks(flock) && (flock.power.kind == PowerKind::WakeOnLan || flock.netboot.enabled);
  for (std::size_t i = 0; i < flock.ducks.size(); ++i) {
    const Duck& duck = flock.ducks[i];
    const DuckMarks& marks = draft.duck_marks[i];
    if (!duck.name.empty()) names.take(duck.name, duck.name, marks.name);
    if (duck.name == "ductl" || duck.name == "duck-engine")
      faults.add(ErrorCode::kInventoryValue, marks.name, fmt::format("a duck can't be called {}", duck.name),
                 "the state folder keeps run files and logs by name, and this one is taken", "give it another name");
    if (marks.address_known) addresses.take(to_string(duck.address), duck.name, marks.address);
    if (duck.mac) macs.take(to_string(*duck.mac), duck.name, marks.mac);
    check_duck_address(draft, i, faults);
    if (needs_mac && !duck.mac)
      faults.add(ErrorCode::kInventoryValue, marks.name, fmt::format("{} has no MAC address", duck.name),
                 flock.netboot.enabled ? "netboot knows ducks by it" : "wake-on-LAN sends to it",
                 "add mac = \"00:e0:4c:68:00:01\" with the duck's own address");
  }
}

} // namespace

bool is_label(std::string_view text) {
  constexpr std::size_t kLabelMax = 63;
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !text.empty() && text.size() <= kLabelMax && std::all_of(text.begin(), text.end(), allowed);
}

void check_flock(const Draft& draft, FaultLog& faults) {
  check_ports(draft, faults);
  check_machines(draft, faults);
  check_ducks(draft, faults);
  const std::size_t count = draft.flock.ducks.size();
  if (count > kDucksMax)
    faults.add(ErrorCode::kInventoryValue, draft.duck_marks[kDucksMax].name,
               fmt::format("the flock has {} ducks, more than {}", count, kDucksMax), "this is the first one too many");
}

} // namespace ductl::inventory
