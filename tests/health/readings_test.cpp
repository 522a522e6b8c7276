// What is read from the files of a machine; the trees are cut down from real ones.
#include "agent/health/panic_record.hpp"
#include "agent/health/readings.hpp"
#include "tests/health/machine_tree.hpp"

#include <gmock/gmock.h>

namespace ductl::agent::health {
namespace {

using agent::test::MachineTree;

MachineTree& n100(MachineTree& tree) {
  tree.write("proc/meminfo",
             "MemTotal:       32479844 kB\nMemFree:        31000000 kB\nMemAvailable:   31100000 kB\nHugePages_Total:       0\n");
  tree.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) N100\n\nprocessor\t: 1\nmodel name\t: Intel(R) N100\n");
  tree.write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3400000\n");
  for (const char* cpu : {"cpu0", "cpu1"}) {
    const std::string folder = std::string("sys/devices/system/cpu/") + cpu + "/thermal_throttle/";
    tree.write(folder + "core_throttle_count", "2\n").write(folder + "package_throttle_count", "5\n");
  }
  tree.write("sys/class/thermal/thermal_zone0/temp", "27800\n").write("sys/class/thermal/thermal_zone0/type", "acpitz\n");
  tree.write("sys/class/hwmon/hwmon1/name", "coretemp\n").write("sys/class/hwmon/hwmon1/temp1_input", "61000\n");
  tree.write("sys/class/hwmon/hwmon1/temp2_input", "-273000\n");
  return tree;
}

TEST(Readings, OfAnN100) {
  MachineTree tree;
  const Readings out = read_machine(n100(tree).files(), "");
  EXPECT_EQ(out.memory_bytes, std::uint64_t{32479844} * 1024);
  EXPECT_EQ(out.cores, 2);
  EXPECT_EQ(out.cpu_name, "Intel(R) N100");
  EXPECT_EQ(out.clock_max_khz, 3'400'000);
  EXPECT_EQ(out.throttle_count, 2 + 2 + 5);
  EXPECT_EQ(out.celsius, 61);
  EXPECT_EQ(out.celsius_sensor, "coretemp");
  EXPECT_FALSE(out.link);
}

TEST(Readings, OfAMachineThatTellsNothing) {
  const MachineTree tree;
  const Readings out = read_machine(tree.files(), "eth0");
  EXPECT_EQ(out.memory_bytes, 0u);
  EXPECT_EQ(out.cores, 0);
  EXPECT_FALSE(out.throttle_count);
  EXPECT_FALSE(out.celsius);
  EXPECT_FALSE(out.link);
}

TEST(PanicRecord, IsTakenOnceAndItsPartsAreRemoved) {
  MachineTree tree;
  tree.write("sys/module/pstore/parameters/backend", "efi_pstore\n")
      .write("sys/fs/pstore/dmesg-efi-1", "Panic#1 Part1\n<6> before\n")
      .write("sys/fs/pstore/dmesg-efi-2", "Panic#1 Part2\n<0>[ 1.0] Kernel panic - not syncing: x\n<6> more\n");
  EXPECT_EQ(take_panic_record(tree.files()), "Kernel panic - not syncing: x");
  EXPECT_TRUE(tree.files().names("sys/fs/pstore").empty());
  EXPECT_EQ(take_panic_record(tree.files()), "");
}

TEST(PanicRecord, OfALineWithoutEndIsCutAndNoBackendIsNoRecord) {
  MachineTree tree;
  EXPECT_FALSE(take_panic_record(tree.files()));
  tree.write("sys/module/pstore/parameters/backend", "erst\n")
      .write("sys/fs/pstore/dmesg-erst-1", "Kernel panic" + std::string(500, 'x'));
  EXPECT_EQ(take_panic_record(tree.files())->size(), 200u);
  tree.write("sys/module/pstore/parameters/backend", "(null)\n");
  EXPECT_FALSE(take_panic_record(tree.files()));
}

TEST(NetworkCards, AreThoseOfDevicesAndChosenByTheMacThatBooted) {
  MachineTree tree;
  const auto card = [&](const std::string& name, const std::string& mac, bool real) {
    tree.write("sys/class/net/" + name + "/type", name == "lo" ? "772\n" : "1\n")
        .write("sys/class/net/" + name + "/address", mac + "\n");
    if (real) tree.write("sys/class/net/" + name + "/device/vendor", "0x8086\n");
  };
  card("lo", "00:00:00:00:00:00", false);
  card("eth1", "00:e0:4c:68:01:02", true);
  card("eth0", "00:e0:4c:68:01:01", true);
  card("br0", "00:e0:4c:68:01:03", false);
  const auto cards = network_cards(tree.files());
  ASSERT_EQ(cards.size(), 2u);
  EXPECT_EQ(cards[0].interface, "eth0");
  EXPECT_FALSE(choose_card(cards, std::nullopt)); // two: not clear
  EXPECT_EQ(choose_card(cards, inventory::parse_mac("00:e0:4c:68:01:02"))->interface, "eth1");
  EXPECT_FALSE(choose_card(cards, inventory::parse_mac("00:e0:4c:68:01:03")));
  EXPECT_EQ(choose_card({cards[1]}, std::nullopt)->interface, "eth1");
  EXPECT_FALSE(choose_card({}, std::nullopt));
}

TEST(NetworkCards, TellTheirLink) {
  MachineTree tree;
  const std::string folder = "sys/class/net/eth0/";
  tree.write(folder + "carrier", "1\n").write(folder + "speed", "100\n").write(folder + "duplex", "full\n");
  EXPECT_EQ(link_state(tree.files(), "eth0"), (LinkState{true, 100, "full"}));
  tree.write(folder + "speed", "-1\n").write(folder + "duplex", "unknown\n"); // virtio
  EXPECT_EQ(link_state(tree.files(), "eth0"), (LinkState{true, 0, ""}));
  tree.write(folder + "carrier", "0\n");
  EXPECT_FALSE(link_state(tree.files(), "eth0")->carrier);
  EXPECT_FALSE(link_state(tree.files(), "eth7"));
}

} // namespace
} // namespace ductl::agent::health
