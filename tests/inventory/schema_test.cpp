// Every key lands in its field, and absent keys leave the defaults.
#include "sample.hpp"

#include <gmock/gmock.h>

namespace ductl::inventory {
namespace {

Flock parsed(const std::string& text) {
  auto flock = parse_inventory(text, "flock.toml");
  if (!flock) ADD_FAILURE() << flock.error().text();
  return flock ? *flock : Flock{};
}

TEST(InventorySchema, WhatIsNotSaidHasItsDefault) {
  const Flock flock = parsed(std::string(kSample));
  Flock expected;
  expected.name = "test";
  expected.ports = {{"port1", "lo", 0x7f150101, 24, Fanout::Unicast}};
  expected.ducks = {
      {"duck01", 0, 0x7f150165, {}, 0, 0, 0}, {"duck02", 0, 0x7f150166, {}, 0, 0, 0}, {"extra", 0, 0x7f15016e, {}, 0, 0, 0}};
  expected.model.source = "some/model";
  EXPECT_EQ(flock, expected);
}

TEST(InventorySchema, EveryKeyIsRead) {
  const Flock flock = parsed(R"(
[flock]
name = "all-keys"
[[port]]
name = "a"
interface = "enp1s0f0"
address = "10.21.1.1/25"
fanout = "broadcast"
[[port]]
name = "b"
interface = "lo"
address = "127.0.0.1/8"
[[duck]]
name = "one"
port = "b"
address = "127.5.5.5"
mac = "02-00-00-00-00-01"
memory_gib = 1.5
cores = 3
link_mbps = 1000
[[ducks]]
name = "d[8-9]"
port = "a"
address = ["10.21.1.7", "10.21.1.[3]"]
mac_first = "00:e0:4c:68:01:ff"
memory_gib = 32
cores = 4
link_mbps = 2500
[agent]
control_port = 1
data_port = 65535
threads = 3
[power]
driver = "exec"
max_booting = 9
on_command = "/bin/on {name}"
off_command = "/bin/off {mac}"
[netboot]
enabled = false
chain = "uki"
proxy_dhcp = true
http_port = 8069
image = "image"
[model]
source = "/models/x"
chat_format = "chatml-qwen3"
format = "fp9"
[engine]
attention = "cuda"
transport = "dpdk"
hidden = "bf16"
reply = "compact"
index_keys = "fp8"
speculation = "off"
context_length = 4096
threads = 7
api_address = "0.0.0.0"
api_port = 8000
[limits]
dead_after_ms = 50
boot_timeout_s = 60
control_timeout_ms = 700
request_tokens_max = 99
)");
  Flock expected;
  expected.name = "all-keys";
  expected.ports = {{"a", "enp1s0f0", 0x0a150101, 25, Fanout::Broadcast}, {"b", "lo", 0x7f000001, 8, Fanout::Unicast}};
  expected.ducks = {{"one", 1, 0x7f050505, Mac{2, 0, 0, 0, 0, 1}, 3ull << 29, 3, 1000},
                    {"d8", 0, 0x0a150107, Mac{0, 0xe0, 0x4c, 0x68, 1, 0xff}, 32ull << 30, 4, 2500},
                    {"d9", 0, 0x0a150103, Mac{0, 0xe0, 0x4c, 0x68, 2, 0}, 32ull << 30, 4, 2500}};
  expected.agent_ports = {1, 65535};
  expected.agent_threads = 3;
  expected.power = {PowerKind::Exec, 9, "/bin/on {name}", "/bin/off {mac}"};
  expected.netboot = {false, "uki", true, 8069, "image"};
  expected.model = {"/models/x", "chatml-qwen3", "fp9"};
  expected.engine = {AttentionKind::Cuda,
                     TransportKind::Dpdk,
                     HiddenType::Bf16,
                     ReplyType::Compact,
                     IndexKeys::Fp8,
                     SpeculationKind::Off,
                     4096,
                     7,
                     0,
                     8000};
  expected.limits = {50, 60, 700, 99};
  EXPECT_EQ(flock, expected);
}

TEST(InventorySchema, WithOnePortDucksNeedNotNameIt) {
  EXPECT_EQ(parsed(with("port = \"port1\"\nname = \"extra\"", "name = \"extra\"")).ducks.back().port_index, 0);
}

TEST(InventorySchema, WithTwoPortsTheyMust) {
  const std::string second = "[[port]]\nname = \"p2\"\ninterface = \"e\"\naddress = \"10.0.0.1/24\"\n";
  EXPECT_EQ(fault_of(with("port = \"port1\"\nname = \"extra\"", "name = \"extra\"") + second).message, "duck.port is missing");
}

TEST(InventorySchema, ADuckBootsByItsOwnChain) {
  const Flock flock = parsed(with("name = \"extra\"", "name = \"extra\"\nchain = \"uki\"\nproxy_style = \"4011\""));
  EXPECT_EQ(flock.ducks.back().chain, "uki");
  EXPECT_EQ(flock.ducks.back().proxy_style, "4011");
  EXPECT_EQ(flock.ducks.front().chain, "");
  EXPECT_EQ(flock.ducks.front().proxy_style, "bypass");
}

TEST(InventorySchema, SettingsThatNobodyCarriesOutAreNamed) {
  Flock flock = parsed(std::string(kSample));
  flock.ports[0].fanout = Fanout::Unicast;
  EXPECT_TRUE(settings_not_carried_out(flock).empty());
  flock.ports[0].fanout = Fanout::Broadcast;
  flock.engine.attention = AttentionKind::Cuda;
  flock.engine.transport = TransportKind::Dpdk;
  flock.power.kind = PowerKind::Exec;
  const std::vector<Error> settings = settings_not_carried_out(flock);
  ASSERT_EQ(settings.size(), 4u);
  EXPECT_THAT(settings[0].message, ::testing::HasSubstr("fanout = \"broadcast\" of port1"));
  EXPECT_THAT(settings[1].message, ::testing::HasSubstr("engine.attention = \"cuda\""));
  EXPECT_THAT(settings[3].message, ::testing::HasSubstr("power.driver = \"exec\""));
}

} // namespace
} // namespace ductl::inventory
