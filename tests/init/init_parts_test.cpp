// The small deciding parts of a duck's init.
#include "agent/init/duck_init.hpp"
#include "agent/init/hello_schedule.hpp"
#include "agent/init/kernel_arguments.hpp"
#include "agent/init/kernel_log.hpp"
#include "agent/init/machine_settings.hpp"
#include "tests/health/machine_tree.hpp"

#include <gmock/gmock.h>

namespace ductl::agent::init {
namespace {

using namespace std::chrono_literals;
using agent::test::MachineTree;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(KernelArguments, OfAnIpxeScript) {
  const auto out =
      parse_kernel_arguments("initrd=initrd ip=10.21.1.101:10.21.1.1::255.255.255.0 BOOTIF=01-52-54-00-21-01-01 panic=60\n");
  EXPECT_EQ(out.address, 0x0a150165u);
  EXPECT_EQ(out.host, 0x0a150101u);
  EXPECT_EQ(out.boot_mac, inventory::parse_mac("52:54:00:21:01:01"));
}

TEST(KernelArguments, OfAUkiAndOfNonsense) {
  for (const char* line : {"", "console=ttyS0,115200 console=tty0", "ip=dhcp BOOTIF=eth0",
                           "ip=::::", "BOOTIF=20-52-54-00-21-01-01", "ip=", "BOOTIF=01-", "ip=1.2.3.4.5:300.1.1.1"}) {
    const auto out = parse_kernel_arguments(line);
    EXPECT_EQ(out.address, 0u) << line;
    EXPECT_EQ(out.host, 0u) << line;
    EXPECT_FALSE(out.boot_mac) << line;
  }
}

TEST(HelloSchedule, DoublesToTenSecondsAndEndsWithTheAdoption) {
  const Instant start{1h};
  HelloSchedule schedule(start);
  std::vector<std::int64_t> at_ms;
  for (Instant now = start; now < start + 40s; now += 50ms)
    if (schedule.is_due(now, false)) at_ms.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(now - start).count());
  EXPECT_THAT(at_ms, ElementsAre(0, 250, 750, 1750, 3750, 7750, 15750, 25750, 35750));
  EXPECT_FALSE(schedule.is_due(start + 1h, true));
}

TEST(KernelLog, RecordsBecomeLines) {
  EXPECT_EQ(kernel_log_line("6,339,12345678,-;e1000e: eth0 NIC Link is Up\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:02.0\n"),
            "[   12.345678] e1000e: eth0 NIC Link is Up\n");
  EXPECT_EQ(kernel_log_line("4,1,9,c,caller=T1;\n"), "[    0.000009] \n");
  for (const char* record : {"", "6,339,1", "6;text", "6,339;text", "6,339,x,-;text"})
    EXPECT_FALSE(kernel_log_line(record)) << record;
}

TEST(MachineSettings, AreThoseThatTheMachineHasAFileFor) {
  MachineTree tree;
  EXPECT_THAT(machine_settings(tree.files(), 4), IsEmpty());
  tree.write("proc/sys/kernel/panic", "0\n")
      .write("proc/irq/24/smp_affinity", "f\n")
      .write("proc/irq/default_smp_affinity", "f\n");
  tree.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n").write("sys/devices/system/cpu/cpufreq/x", "");
  const std::vector<MachineSetting> all = machine_settings(tree.files(), 4);
  EXPECT_THAT(all,
              ElementsAre(MachineSetting{"proc/sys/kernel/panic", "30"},
                          MachineSetting{"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance"},
                          MachineSetting{"proc/irq/default_smp_affinity", "1"}, MachineSetting{"proc/irq/24/smp_affinity", "1"}));
  EXPECT_EQ(machine_settings(tree.files(), 2).size(), 2u); // no core to spare
  EXPECT_EQ(make_settings(tree.files(), all), 4);
  EXPECT_EQ(tree.read("proc/irq/24/smp_affinity"), "1");
  EXPECT_EQ(make_settings(tree.files(), {{"proc/none/of/this", "1"}}), 0);
}

TEST(IsInit, IsNotTrueOfAProcessThatSomebodyStarted) {
  char program[] = "duck-agent";
  char* arguments[] = {program, nullptr};
  EXPECT_FALSE(is_init(1, arguments));
}

} // namespace
} // namespace ductl::agent::init
