#include "rules.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace ductl::tidy {
namespace {

constexpr std::size_t kLinesMax = 600;

struct Line {
  std::size_t number;
  std::string_view text;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    lines.push_back({number, text.substr(0, end)});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string complaint(std::string_view path, std::size_t line, std::string_view what) {
  return std::string(path) + ":" + std::to_string(line) + ": " + std::string(what);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// What an include line includes, with its quotes; "" for every other line.
std::string_view included(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with('#')) return {};
  line = trimmed(line.substr(1));
  constexpr std::string_view kInclude = "include";
  if (!line.starts_with(kInclude)) return {};
  line = trimmed(line.substr(kInclude.size()));
  const std::size_t end = line.find_first_of(">\"", 1);
  return end == std::string_view::npos ? std::string_view() : line.substr(0, end + 1);
}

bool in_any(std::string_view path, std::span<const std::string_view> places) {
  return std::any_of(places.begin(), places.end(), [&](std::string_view place) { return path.starts_with(place); });
}

// Linked into the static agent only, in ISA-L's place.
constexpr std::string_view kCrcShim = "netboot/image/static_agent/crc32c_sse42.cpp";

bool is_avx2(std::string_view path) { return path.ends_with("_avx2.cpp"); }

struct Floor {
  std::string_view folder;
  std::vector<std::string_view> may_include;
};

// The first one that a path begins with is its own; so the parts of netboot that ducks use too stand before netboot.
const std::vector<std::string_view> kBootPackets{"netboot/dhcp/packet", "netboot/dhcp/options", "netboot/ipv4_udp",
                                                 "netboot/bytes",       "netboot/address",      "inventory/"};
const std::vector<Floor> kFloors{
    {"inventory/", {"inventory/"}},
    {"weights/", {"weights/", "inventory/"}},
    {"netboot/http/", {"netboot/http/", "inventory/"}},
    {"netboot/image/modules/", {"netboot/image/modules/", "inventory/"}},
    {"netboot/dhcp/packet", kBootPackets},
    {"netboot/ipv4_udp", kBootPackets},
    {"netboot/bytes", kBootPackets},
    {"netboot/address", kBootPackets},
    {"netboot/", {"netboot/", "inventory/"}},
    {"agent/",
     {"agent/", "netboot/http/", "netboot/image/modules/", "netboot/dhcp/packet", "netboot/dhcp/options", "netboot/ipv4_udp",
      "netboot/bytes", "netboot/address", "netboot/descriptor", "weights/", "inventory/"}},
    {"engine/",
     {"engine/", "agent/wire/", "agent/transport/", "agent/client/", "agent/bench/machine.hpp", "agent/bench/all_core_stream.hpp",
      "agent/bench/mapped_memory.hpp", "netboot/http/", "weights/", "inventory/"}},
    {"ductl/", {"ductl/", "agent/client/", "agent/wire/", "netboot/", "weights/", "inventory/"}},
};

struct Library {
  std::string_view header; // beginning of what stands between the quotes
  std::vector<std::string_view> places;
};

const std::vector<Library> kLibraries{
    {"toml.hpp", {"inventory/"}},
    {"toml/", {"inventory/"}},
    {"boost/beast", {"netboot/http/"}},
    {"boost/asio", {"netboot/http/", "netboot/server/"}},
    {"linux/if_packet.h", {"netboot/server/", "ductl/power/", "agent/init/"}},
    {"CLI/", {"ductl/", "engine/main", "netboot/image/main"}},
    {"curl/", {"agent/client/", "ductl/", "weights/fetch"}},
    {"histedit.h", {"ductl/commands/"}},
    {"utf8proc.h", {"ductl/view/", "engine/"}},
    {"pcre2.h", {"engine/tokenizer/"}},
    {"isa-l", {"agent/wire/"}},
    {"openssl/evp.h", {"netboot/image/digest", "netboot/boot_file"}},
    {"elf.h", {"netboot/image/static_program"}},
    {"spawn.h", {"ductl/", "netboot/image/zstd_program"}},
    {"rte_", {"agent/transport/dpdk_"}},
    {"cuda", {"engine/attention/"}},
    {"gtest/", {}},
    {"gmock/", {}},
};

// A kernel file's own declarations, sizes and intrinsics. Anything inline in other headers would be compiled with wide
// instructions here, and the linker might keep that copy for a machine that has none.
const std::array<std::string_view, 4> kAvx2Headers{"<immintrin.h>", "<cstddef>", "<cstdint>", "<cstring>"};

// Loops that do I/O and mains. What decides takes `now` as a parameter.
const std::array<std::string_view, 25> kClockReaders{
    "agent/main.cpp",                  // the process
    "agent/bench/",                    // what it does is to measure time
    "agent/control_server.cpp",        // uptime
    "agent/expert_server.cpp",         // the round loop of a duck
    "agent/client/",                   // blocking calls with timeouts
    "agent/transport/",                // waits in poll
    "agent/health/memory_test.cpp",    // ends by the clock
    "agent/init/address_keeper.cpp",   // the loop of the DHCP client
    "agent/init/duck_init.cpp",        // process 1
    "ductl/main.cpp",                  //
    "ductl/boot/boot_desk.cpp",        // when something was seen
    "ductl/commands/",                 // the loops of verbs
    "ductl/power/",                    // waits for processes
    "ductl/reconcile/local_flock.cpp", // observes
    "ductl/reconcile/machines.cpp",    // waits for ducks
    "ductl/reconcile/temporary_flock.cpp",
    "engine/main.cpp",
    "engine/bench/",                   // what it does is to measure time
    "engine/commands/",                // progress of long commands
    "engine/moe/host_ffn.cpp",         // what a layer cost
    "engine/server/chat_endpoint.cpp", // when an answer was made, keep-alive comments
    "engine/server/openai_server.cpp", // since when a model is served
    "engine/session/generation.cpp",   // what a token cost
    "netboot/http/connection.cpp",     // timeouts of sockets
    "netboot/server/",                 // the boot server's loop
};

} // namespace

Complaints floor_complaints(std::string_view path, std::string_view text) {
  const auto own = std::find_if(kFloors.begin(), kFloors.end(), [&](const Floor& f) { return path.starts_with(f.folder); });
  if (own == kFloors.end()) return {};
  Complaints out;
  for (const Line& line : lines_of(text)) {
    const std::string_view quoted = included(line.text);
    if (!quoted.starts_with('"')) continue;
    const std::string_view header = quoted.substr(1, quoted.size() - 2);
    if (header.find("..") != std::string_view::npos || header.find('/') == std::string_view::npos)
      out.push_back(complaint(path, line.number, "include paths begin at the root of the tree: " + std::string(quoted)));
    else if (!in_any(header, own->may_include))
      out.push_back(complaint(path, line.number, std::string(own->folder) + " may not include " + std::string(header)));
  }
  return out;
}

Complaints library_complaints(std::string_view path, std::string_view text) {
  Complaints out;
  for (const Line& line : lines_of(text)) {
    const std::string_view quoted = included(line.text);
    if (quoted.empty()) continue;
    const std::string_view header = quoted.substr(1, quoted.size() - 2);
    const bool intrinsics = header.ends_with("intrin.h");
    if (intrinsics && !is_avx2(path) && path != kCrcShim)
      out.push_back(complaint(path, line.number, "intrinsics belong in *_avx2.cpp files"));
    for (const Library& library : kLibraries)
      if (header.starts_with(library.header) && !in_any(path, library.places))
        out.push_back(complaint(path, line.number, "no place for " + std::string(header)));
  }
  return out;
}

Complaints avx2_complaints(std::string_view path, std::string_view text) {
  if (!is_avx2(path)) return {};
  const std::string_view folder = path.substr(0, path.rfind('/') + 1);
  Complaints out;
  for (const Line& line : lines_of(text)) {
    const std::string_view quoted = included(line.text);
    if (quoted.empty()) continue;
    const bool own = quoted.starts_with('"') && quoted.substr(1).starts_with(folder);
    if (!own && std::find(kAvx2Headers.begin(), kAvx2Headers.end(), quoted) == kAvx2Headers.end())
      out.push_back(complaint(path, line.number, "a kernel file may not include " + std::string(quoted)));
  }
  return out;
}

Complaints form_complaints(std::string_view path, std::string_view text) {
  const std::vector<Line> lines = lines_of(text);
  Complaints out;
  if (lines.size() > kLinesMax) out.push_back(complaint(path, lines.size(), "longer than 600 lines"));
  const bool header = path.ends_with(".hpp");
  if (header && text.find("#pragma once\n") == std::string_view::npos) out.push_back(complaint(path, 1, "no #pragma once"));
  for (const Line& line : lines) {
    const std::string_view start = trimmed(line.text);
    const bool conditional = start.starts_with("#if") || start.starts_with("#elif");
    if (conditional && start.find("DUCTL_") != std::string_view::npos)
      out.push_back(complaint(path, line.number, "options leave files out, they do not switch lines"));
    if (line.text.find("TO"
                       "DO") != std::string_view::npos ||
        line.text.find("FIX"
                       "ME") != std::string_view::npos)
      out.push_back(complaint(path, line.number, "a note to oneself"));
    if (line.text.find("using namespace"
                       " std;") != std::string_view::npos)
      out.push_back(complaint(path, line.number, "using namespace std"));
  }
  return out;
}

Complaints clock_complaints(std::string_view path, std::string_view text) {
  if (in_any(path, kClockReaders)) return {};
  Complaints out;
  for (const Line& line : lines_of(text)) {
    const bool reads = line.text.find("::now()") != std::string_view::npos ||
                       line.text.find("clock_gettime(") != std::string_view::npos ||
                       line.text.find("gettimeofday(") != std::string_view::npos;
    if (reads) out.push_back(complaint(path, line.number, "reads a clock; logic takes `now` as a parameter"));
  }
  return out;
}

} // namespace ductl::tidy
