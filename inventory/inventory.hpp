// Who exists and what we want: the flock as its inventory file describes it.
//
// Plain values, made by load_inventory() (inventory_toml.cpp, the only user of toml11) and never changed afterwards.
// The file format is docs/inventory.md. Every default stands here once; the TOML reader starts from these values.
#pragma once

#include "inventory/error.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::inventory {

using Mac = std::array<std::uint8_t, 6>;
using Ipv4 = std::uint32_t; // host byte order: 127.21.1.101 = 0x7f150165

inline constexpr int kDucksMax = 64; // of a flock: what placement and the wire are made for

[[nodiscard]] std::string to_string(Ipv4 address);
[[nodiscard]] std::string to_string(const Mac& mac);
[[nodiscard]] std::optional<Ipv4> parse_ipv4(std::string_view text);
[[nodiscard]] std::optional<Mac> parse_mac(std::string_view text);

enum class Fanout { Unicast, Broadcast };
enum class PowerKind { Process, WakeOnLan, Exec };
enum class TransportKind { Udp, Dpdk };
enum class AttentionKind { Auto, Cpu, Cuda };
enum class HiddenType { F32, Bf16 };     // how hidden states travel to the ducks
enum class ReplyType { Exact, Compact }; // how partial sums travel back
enum class IndexKeys { F32, Fp8 };       // how the keys of sparse attention's indexer are cached
enum class SpeculationKind { Mtp, Off }; // guessing tokens with the model's own MTP layer

// One broadcast domain: a NIC port of the host, or loopback.
struct Port {
  std::string name;      // "port1"
  std::string interface; // "enp1s0f0", "lo"
  Ipv4 address = 0;      // the host's own address in it
  int prefix_length = 24;
  Fanout fanout = Fanout::Unicast;
  bool operator==(const Port&) const = default;
};

struct Duck {
  std::string name; // unique, [a-z0-9-]{1,63}
  int port_index = 0;
  Ipv4 address = 0;
  std::optional<Mac> mac;             // absent for process ducks
  std::uint64_t memory_bytes = 0;     // expected; 0 = not said
  int cores = 0;                      // expected; 0 = not said
  int link_mbps = 0;                  // expected; 0 = not said
  std::string chain = {};             // how it boots, as Netboot::chain; empty = as that says
  std::string proxy_style = "bypass"; // bypass | 4011: what its firmware is offered beside another DHCP server
  bool operator==(const Duck&) const = default;
};

struct Power {
  PowerKind kind = PowerKind::Process;
  int max_booting = 4;                 // wakes in flight at once
  std::string on_command, off_command; // PowerKind::Exec: a program and its arguments, {name} {address} {mac} filled in
  bool operator==(const Power&) const = default;
};

struct Netboot {
  bool enabled = false;
  std::string chain = "auto"; // auto | ipxe | uki | http
  bool proxy_dhcp = false;
  std::uint16_t http_port = 80; // of the boot server
  std::string image;            // folder of the image; empty = the one that was built or installed with ductl
  bool operator==(const Netboot&) const = default;
};

struct Model {
  std::string
      source; // folder, single .safetensors file's folder, or org/name in the HF hub cache; may be relative to the inventory file
  std::string chat_format;     // empty = chosen by model type and special tokens
  std::string format = "auto"; // stored form of slices: auto | fp9 | e4m3
  bool operator==(const Model&) const = default;
};

struct Engine {
  AttentionKind attention = AttentionKind::Auto;
  TransportKind transport = TransportKind::Udp;
  HiddenType hidden = HiddenType::F32;
  ReplyType reply = ReplyType::Exact;
  IndexKeys index_keys = IndexKeys::F32;
  SpeculationKind speculation = SpeculationKind::Mtp; // of models that have such a layer
  int context_length = 0;                             // tokens; 0 = the model's own, at most 8192
  int threads = 0;                                    // of attention on the CPU; 0 = one a core
  Ipv4 api_address = 0x7f000001;
  std::uint16_t api_port = 7411;
  bool operator==(const Engine&) const = default;
};

struct Limits {
  int dead_after_ms = 5000; // silence in a round after which a duck is dead; 50 on a real flock
  int boot_timeout_s = 180; // from power-on to the agent's hello
  int control_timeout_ms = 5000;
  int request_tokens_max = 0; // longest answer when a request names none; 0 = up to the context
  bool operator==(const Limits&) const = default;
};

struct Ports { // UDP/TCP port numbers of every agent; 0 = kernel-chosen (temporary flocks)
  std::uint16_t control = 7421;
  std::uint16_t data = 7422;
  bool operator==(const Ports&) const = default;
};

struct Flock {
  std::string name; // [a-z0-9-]{1,63}; names the state folder
  std::vector<Port> ports;
  std::vector<Duck> ducks; // in file order; a duck's index here is its number on the wire
  Ports agent_ports;
  int agent_threads = 0; // that compute on a duck; 0 = as the agent finds best
  Power power;
  Netboot netboot;
  Model model;
  Engine engine;
  Limits limits;
  std::filesystem::path file; // absolute; empty for a flock made in memory
  bool operator==(const Flock&) const = default;
};

// Every fault of a file, found in one pass. Never empty when returned as an error.
struct Faults {
  std::vector<Error> errors; // each with file:line:column in `place` and the offending line in `window`; in the file's order
  [[nodiscard]] std::string text() const; // all of them, for a terminal
};

// Reads and checks a whole file. Returns the flock, or all of its faults.
[[nodiscard]] tl::expected<Flock, Faults> load_inventory(const std::filesystem::path& file);
// The same for text already in memory (`name` stands for the file in messages). Used by tests and the fuzz target.
[[nodiscard]] tl::expected<Flock, Faults> parse_inventory(std::string_view text, const std::string& name);

// Settings that the schema knows and this version does not carry out (a power driver, CUDA, ...). `validate` shows them as notes,
// `up` refuses to start with them: nothing is accepted silently and then not done. Empty = all can be done.
[[nodiscard]] std::vector<Error> settings_not_carried_out(const Flock& flock);

// Ducks that are processes of this machine, rather than machines of their own.
[[nodiscard]] inline bool has_local_ducks(const Flock& flock) { return flock.power.kind == PowerKind::Process; }

// Of a machine's memory, what its kernel and agent keep for themselves: slices get the rest.
[[nodiscard]] constexpr std::uint64_t machine_reserve(std::uint64_t memory_bytes) {
  constexpr std::uint64_t kLeast = 64ull << 20, kPart = 32; // 1 GiB of 32
  if (memory_bytes / 2 < kLeast) return memory_bytes / 2;
  return memory_bytes / kPart > kLeast ? memory_bytes / kPart : kLeast;
}
// What slices may take of a duck, by the inventory's memory_gib: all of a process's, of a machine's what its system leaves. 0 =
// it does not say.
[[nodiscard]] inline std::uint64_t slice_memory(const Flock& flock, const Duck& duck) {
  const std::uint64_t kept = has_local_ducks(flock) ? 0 : machine_reserve(duck.memory_bytes);
  return duck.memory_bytes > kept ? duck.memory_bytes - kept : 0;
}

// The model's folder or hub name, resolved against the inventory file's folder when it is a relative path that exists there.
[[nodiscard]] std::string model_source(const Flock& flock);

} // namespace ductl::inventory
