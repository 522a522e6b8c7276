#include "agent/health/readings.hpp"

#include "inventory/cpu_features.hpp"

#include <algorithm>
#include <sstream>

namespace ductl::agent::health {
namespace {

std::uint64_t memory_bytes(const MachineFiles& files) {
  std::istringstream in(files.text("proc/meminfo").value_or(""));
  std::string title, rest;
  std::uint64_t kilobytes = 0;
  while (in >> title >> kilobytes && std::getline(in, rest))
    if (title == "MemTotal:") return kilobytes * 1024;
  return 0;
}

void read_cpu(const MachineFiles& files, Readings& out) {
  std::istringstream in(files.text("proc/cpuinfo").value_or(""));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("processor\t")) ++out.cores;
    const std::size_t value = line.find(": ");
    if (line.starts_with("model name") && value != std::string::npos) out.cpu_name = line.substr(value + 2);
  }
  out.avx2 = cpu_has_avx2();
  out.clock_max_khz = files.number("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
}

// Each core counts its own; the package's is the same on each and counts once.
std::optional<std::int64_t> throttle_count(const MachineFiles& files) {
  std::optional<std::int64_t> sum;
  std::int64_t package = 0;
  for (const std::string& cpu : files.names("sys/devices/system/cpu")) {
    const std::string folder = "sys/devices/system/cpu/" + cpu + "/thermal_throttle/";
    const auto core = files.number(folder + "core_throttle_count");
    package = std::max(package, files.number(folder + "package_throttle_count").value_or(0));
    if (core) sum = sum.value_or(0) + *core;
  }
  return sum ? std::optional(*sum + package) : std::nullopt;
}

void take_sensor(Readings& out, std::optional<std::int64_t> millidegrees, const std::string& name) {
  constexpr std::int64_t kLowest = -40'000, kHighest = 150'000; // beyond: a sensor that is none
  if (!millidegrees || *millidegrees < kLowest || *millidegrees > kHighest) return;
  const double celsius = static_cast<double>(*millidegrees) / 1000;
  if (out.celsius && *out.celsius >= celsius) return;
  out.celsius = celsius;
  out.celsius_sensor = name;
}

void read_temperature(const MachineFiles& files, Readings& out) {
  for (const std::string& zone : files.names("sys/class/thermal"))
    if (zone.starts_with("thermal_zone")) {
      const std::string folder = "sys/class/thermal/" + zone;
      take_sensor(out, files.number(folder + "/temp"), files.line(folder + "/type").value_or(zone));
    }
  for (const std::string& monitor : files.names("sys/class/hwmon")) {
    const std::string folder = "sys/class/hwmon/" + monitor;
    const std::string name = files.line(folder + "/name").value_or(monitor);
    for (const std::string& file : files.names(folder))
      if (file.starts_with("temp") && file.ends_with("_input")) take_sensor(out, files.number(folder + "/" + file), name);
  }
}

} // namespace

Readings read_machine(const MachineFiles& files, const std::string& interface) {
  Readings out;
  out.memory_bytes = memory_bytes(files);
  read_cpu(files, out);
  out.throttle_count = throttle_count(files);
  read_temperature(files, out);
  out.interface = interface;
  if (interface.empty()) return out;
  out.link = link_state(files, interface);
  out.wake_on_lan = wake_on_lan(interface);
  return out;
}

} // namespace ductl::agent::health
