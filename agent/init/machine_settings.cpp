#include "agent/init/machine_settings.hpp"

#include <algorithm>

namespace ductl::agent::init {
namespace {

constexpr int kCoresForOneApart = 3;    // with fewer there is none to spare
constexpr const char* kFirstCore = "1"; // as a mask

void add(const MachineFiles& files, std::vector<MachineSetting>& out, const std::string& path, const char* value) {
  if (files.exists(path)) out.push_back({path, value});
}

bool is_number(const std::string& name) { return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos; }

} // namespace

std::vector<MachineSetting> machine_settings(const MachineFiles& files, int cores) {
  std::vector<MachineSetting> out;
  add(files, out, "proc/sys/kernel/printk_devkmsg", "on"); // every line of ours, not ten in five seconds
  add(files, out, "proc/sys/kernel/panic", "30");          // iPXE's command line does not say so
  add(files, out, "proc/sys/kernel/panic_on_oops", "1");   // a duck that limps is worse than one that restarts
  add(files, out, "proc/sys/vm/stat_interval", "10");
  add(files, out, "proc/sys/net/core/rmem_max", "8388608"); // the data plane asks for large buffers
  add(files, out, "proc/sys/net/core/wmem_max", "8388608");
  add(files, out, "sys/kernel/mm/transparent_hugepage/enabled", "always");
  add(files, out, "sys/kernel/mm/transparent_hugepage/defrag", "madvise"); // the slice arena asks, and is given at once
  for (const std::string& cpu : files.names("sys/devices/system/cpu"))
    if (cpu.starts_with("cpu") && is_number(cpu.substr(3)))
      add(files, out, "sys/devices/system/cpu/" + cpu + "/cpufreq/scaling_governor", "performance");
  if (cores < kCoresForOneApart) return out;
  add(files, out, "sys/devices/virtual/workqueue/cpumask", kFirstCore);
  add(files, out, "proc/irq/default_smp_affinity", kFirstCore);
  for (const std::string& irq : files.names("proc/irq"))
    if (is_number(irq)) add(files, out, "proc/irq/" + irq + "/smp_affinity", kFirstCore);
  return out;
}

int make_settings(const MachineFiles& files, const std::vector<MachineSetting>& settings) {
  return static_cast<int>(std::count_if(settings.begin(), settings.end(),
                                        [&](const MachineSetting& setting) { return files.write(setting.path, setting.value); }));
}

} // namespace ductl::agent::init
