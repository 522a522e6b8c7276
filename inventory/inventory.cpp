#include "inventory/inventory.hpp"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ductl::inventory {

std::string to_string(Ipv4 address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, (address >> 16) & 255, (address >> 8) & 255, address & 255);
}

std::string to_string(const Mac& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

std::optional<Ipv4> parse_ipv4(std::string_view text) {
  Ipv4 address = 0;
  for (int octet = 0; octet < 4; ++octet) {
    const std::size_t dot = octet < 3 ? text.find('.') : text.size();
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string_view digits = text.substr(0, dot);
    const bool padded = digits.size() > 1 && digits.front() == '0'; // "010" is eight to some and ten to others
    if (digits.empty() || digits.size() > 3 || padded) return std::nullopt;
    unsigned value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (status != std::errc{} || end != digits.data() + digits.size() || value > 255) return std::nullopt;
    address = address << 8 | value;
    text.remove_prefix(octet < 3 ? dot + 1 : dot);
  }
  return address;
}

std::optional<Mac> parse_mac(std::string_view text) {
  constexpr std::size_t kTextSize = 17; // "00:e0:4c:68:00:07"
  if (text.size() != kTextSize) return std::nullopt;
  const char separator = text[2];
  if (separator != ':' && separator != '-') return std::nullopt;
  Mac mac{};
  for (std::size_t i = 0; i < mac.size(); ++i) {
    const char* digits = text.data() + 3 * i;
    if (i > 0 && digits[-1] != separator) return std::nullopt;
    const auto [end, status] = std::from_chars(digits, digits + 2, mac[i], 16);
    if (status != std::errc{} || end != digits + 2) return std::nullopt;
  }
  return mac;
}

std::string Faults::text() const {
  std::string out;
  for (const Error& error : errors) out += error.text() + "\n\n";
  return out + fmt::format("{} fault{} found", errors.size(), errors.size() == 1 ? "" : "s");
}

std::vector<Error> settings_not_carried_out(const Flock& flock) {
  std::vector<Error> settings;
  const auto add = [&](std::string setting, std::string next) {
    settings.push_back({ErrorCode::kInventoryValue,
                        fmt::format("this version of ductl does not carry out {}", setting),
                        flock.file.string(),
                        std::move(next),
                        {}});
  };
  std::vector<std::string_view> broadcasting;
  for (const Port& port : flock.ports)
    if (port.fanout == Fanout::Broadcast) broadcasting.push_back(port.name);
  if (!broadcasting.empty())
    add(fmt::format("fanout = \"broadcast\" of {}", fmt::join(broadcasting, ", ")),
        "set it to \"unicast\": every duck gets a copy of its own");
  if (flock.engine.attention == AttentionKind::Cuda) add("engine.attention = \"cuda\"", "set it to \"cpu\" or \"auto\"");
  if (flock.engine.transport == TransportKind::Dpdk) add("engine.transport = \"dpdk\"", "set it to \"udp\"");
  if (flock.power.kind == PowerKind::Exec) add("power.driver = \"exec\"", "a flock of processes sets it to \"process\"");
  constexpr Ports kUsual;
  if ((flock.agent_ports.control != kUsual.control || flock.agent_ports.data != kUsual.data) && !has_local_ducks(flock))
    add("agent.control_port and agent.data_port of machines",
        fmt::format("leave them out: a machine's agent has {} and {}", kUsual.control, kUsual.data));
  if (flock.agent_threads != 0 && !has_local_ducks(flock))
    add("agent.threads of machines", "leave it out: a machine computes on every core but the network's");
  return settings;
}

std::string model_source(const Flock& flock) {
  const std::filesystem::path source(flock.model.source);
  if (source.is_absolute() || flock.file.empty()) return flock.model.source;
  std::error_code ignored;
  const std::filesystem::path beside = (flock.file.parent_path() / source).lexically_normal();
  // "./" and "../" can only be meant as a path, so that an error names where it leads.
  const bool path = flock.model.source.starts_with("./") || flock.model.source.starts_with("../");
  return path || std::filesystem::exists(beside, ignored) ? beside.string() : flock.model.source;
}

} // namespace ductl::inventory
