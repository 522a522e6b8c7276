#include "agent/agent_options.hpp"

#include "agent/thread_plan.hpp"
#include "inventory/inventory.hpp"

#include <fmt/format.h>
#include <getopt.h>

#include <charconv>
#include <limits>
#include <string_view>

namespace ductl::agent {

namespace {

enum Option : int {
  kName = 1,
  kFlock,
  kAddress,
  kControlPort,
  kDataPort,
  kKeyFile,
  kKeyFd,
  kLog,
  kReadyFd,
  kMemoryLimit,
  kThreads,
  kCores,
  kHelp,
  kVersionOption
};

constexpr option kOptions[] = {{"name", required_argument, nullptr, kName},
                               {"flock", required_argument, nullptr, kFlock},
                               {"address", required_argument, nullptr, kAddress},
                               {"control-port", required_argument, nullptr, kControlPort},
                               {"data-port", required_argument, nullptr, kDataPort},
                               {"key-file", required_argument, nullptr, kKeyFile},
                               {"key-fd", required_argument, nullptr, kKeyFd},
                               {"log", required_argument, nullptr, kLog},
                               {"ready-fd", required_argument, nullptr, kReadyFd},
                               {"memory-limit", required_argument, nullptr, kMemoryLimit},
                               {"threads", required_argument, nullptr, kThreads},
                               {"cores", required_argument, nullptr, kCores},
                               {"help", no_argument, nullptr, kHelp},
                               {"version", no_argument, nullptr, kVersionOption},
                               {nullptr, 0, nullptr, 0}};

tl::unexpected<Error> usage(std::string message) {
  return fail(ErrorCode::kUsage, std::move(message), "duck-agent", "see duck-agent --help");
}

template <class T> bool take(std::string_view text, T& out, T min = 0) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && ec == std::errc() && end == text.data() + text.size() && out >= min;
}

template <class T> bool take(std::string_view text, std::optional<T>& out, T min = 0) { return take(text, out.emplace(), min); }

bool take_address(std::string_view text, std::uint32_t& out) {
  const auto address = inventory::parse_ipv4(text);
  out = address.value_or(0);
  return address.has_value();
}

bool take_cores(std::string_view text, std::optional<bool>& shared) {
  if (text != "own" && text != "shared") return false;
  shared = text == "shared";
  return true;
}

// False when the value is not one of its kind.
bool apply(int option, const char* value, AgentOptions& out) {
  switch (option) {
  case kName: return !(out.name = value).empty();
  case kFlock: return !(out.flock = value).empty();
  case kAddress: return take_address(value, out.address);
  case kControlPort: return take(value, out.control_port);
  case kDataPort: return take(value, out.data_port);
  case kKeyFile: return !out.key_file.emplace(value).empty();
  case kKeyFd: return take(value, out.key_descriptor);
  case kLog: return !(out.log = value).empty();
  case kReadyFd: return take(value, out.ready_descriptor);
  case kMemoryLimit: return take(value, out.memory_limit_bytes, std::uint64_t{1});
  case kThreads: return take(value, out.threads) && out.threads <= kThreadsMax;
  case kCores: return take_cores(value, out.shared_cores);
  case kHelp: return out.help = true;
  case kVersionOption: return out.version = true;
  default: return false;
  }
}

Expected<void> check(const AgentOptions& options) {
  if (options.name.empty()) return usage("--name is missing");
  if (options.flock.empty()) return usage("--flock is missing");
  if (options.address == 0) return usage("--address is missing");
  if (options.log.empty()) return usage("--log is missing");
  if (options.key_file.has_value() == options.key_descriptor.has_value())
    return usage("one of --key-file and --key-fd is needed");
  return {};
}

} // namespace

Expected<AgentOptions> parse_agent_options(int argc, char** argv) {
  AgentOptions out;
  opterr = 0; // our own words
  optind = 1;
  for (;;) {
    int index = 0;
    const int option = ::getopt_long(argc, argv, ":", kOptions, &index);
    if (option == -1) break;
    if (option == '?' || option == ':')
      return usage(fmt::format("{} {}", argv[optind - 1], option == '?' ? "is not an option" : "needs a value"));
    if (!apply(option, optarg, out))
      return usage(fmt::format("'{}' is no value for --{}", optarg ? optarg : "", kOptions[index].name));
  }
  if (optind < argc) return usage(fmt::format("'{}' is not an option", argv[optind]));
  if (out.help || out.version) return out;
  return check(out).map([&out] { return std::move(out); });
}

const char* agent_usage() {
  return "Usage: duck-agent --name N --flock F --address A --log FILE (--key-file F | --key-fd N) [options]\n"
         "\n"
         "One duck of a flock: holds slices of a model in memory and computes them for the host. ductl starts it;\n"
         "by hand it is of use when a flock is debugged.\n"
         "\n"
         "  --name N             the duck's name, as in the inventory\n"
         "  --flock F            the flock's name\n"
         "  --address A          IPv4 address to listen on\n"
         "  --control-port P     TCP port of the control plane (0, the default: kernel-chosen)\n"
         "  --data-port P        UDP port of the data plane (0, the default: kernel-chosen)\n"
         "  --key-file F         file with the flock key, readable by its owner only\n"
         "  --key-fd N           inherited descriptor to read the flock key from\n"
         "  --log FILE           log file (rotated: 5 of 4 MiB)\n"
         "  --ready-fd N         inherited descriptor for one line of JSON: ready with its ports, or an error\n"
         "  --memory-limit B     most bytes of slices to hold\n"
         "  --threads N          threads that compute, up to 64 (0, the default: all cores but one for the network; one where\n"
         "                       cores are shared)\n"
         "  --cores own|shared   own: each thread is pinned and may spin; shared: none is, and waiting ones sleep (default:\n"
         "                       shared on a loopback address, else own)\n"
         "  --help, --version\n"
         "\n"
         "duck-agent bench [--set-mib N] [--samples N]\n"
         "  What the kernels reach of this machine's memory and arithmetic, as JSON; `ductl bench kernels` shows it.\n";
}

} // namespace ductl::agent
