// Random flocks, written as TOML and read back, are the same flocks.
#include "inventory/inventory.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

namespace ductl::inventory {
namespace {

class Generator {
public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Flock flock() {
    Flock flock;
    flock.name = fmt::format("flock-{}", number(0, 999));
    const int ports = number(1, 4), ducks = number(1, 16);
    for (int p = 0; p < ports; ++p)
      flock.ports.push_back({fmt::format("port{}", p), "eth" + std::to_string(p), static_cast<Ipv4>(0x0a150001 + (p << 8)), 24,
                             number(0, 1) == 0 ? Fanout::Unicast : Fanout::Broadcast});
    for (int p = 0; p < ports; ++p)
      for (int d = 0; d < ducks; ++d) flock.ducks.push_back(duck(p, d));
    flock.agent_ports = {static_cast<std::uint16_t>(number(1, 65535)), static_cast<std::uint16_t>(number(1, 65535))};
    flock.agent_threads = number(0, 64);
    flock.power.max_booting = number(1, 64);
    flock.power.kind = PowerKind::WakeOnLan;
    flock.netboot.enabled = number(0, 1) == 1;
    flock.model.source = "org/name \"quoted\" \\ é";
    flock.engine.hidden = number(0, 1) == 0 ? HiddenType::F32 : HiddenType::Bf16;
    flock.engine.context_length = number(0, 1 << 20);
    flock.engine.api_address = static_cast<Ipv4>(random_());
    flock.limits.dead_after_ms = number(10, 600000);
    return flock;
  }

private:
  int number(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  Duck duck(int port, int index) {
    Duck duck;
    duck.name = fmt::format("d{}-{}", port, index);
    duck.port_index = port;
    duck.address = static_cast<Ipv4>(0x0a150000 + (port << 8) + 10 + index);
    duck.mac = Mac{0x02, static_cast<std::uint8_t>(number(0, 255)), 3,
                   4,    static_cast<std::uint8_t>(port),           static_cast<std::uint8_t>(index)};
    duck.memory_bytes = static_cast<std::uint64_t>(number(1, 128)) << 28; // quarters of a GiB
    duck.cores = number(1, 64);
    duck.link_mbps = number(10, 100000);
    return duck;
  }
  std::mt19937 random_;
};

std::string toml_of(const Flock& flock) {
  std::string out = fmt::format("[flock]\nname = \"{}\"\n", flock.name);
  for (const Port& port : flock.ports)
    out += fmt::format("[[port]]\nname = \"{}\"\ninterface = \"{}\"\naddress = \"{}/{}\"\nfanout = \"{}\"\n", port.name,
                       port.interface, to_string(port.address), port.prefix_length,
                       port.fanout == Fanout::Unicast ? "unicast" : "broadcast");
  for (const Duck& duck : flock.ducks)
    out += fmt::format("[[duck]]\nport = \"{}\"\nname = \"{}\"\naddress = \"{}\"\nmac = \"{}\"\nmemory_gib = {:.2f}\ncores = "
                       "{}\nlink_mbps = {}\n",
                       flock.ports[static_cast<std::size_t>(duck.port_index)].name, duck.name, to_string(duck.address),
                       to_string(*duck.mac), static_cast<double>(duck.memory_bytes) / 1073741824.0, duck.cores, duck.link_mbps);
  out += fmt::format("[agent]\ncontrol_port = {}\ndata_port = {}\nthreads = {}\n[power]\ndriver = \"wake-on-lan\"\nmax_booting = "
                     "{}\n[netboot]\nenabled = {}\n",
                     flock.agent_ports.control, flock.agent_ports.data, flock.agent_threads, flock.power.max_booting,
                     flock.netboot.enabled);
  out += "[model]\nsource = \"org/name \\\"quoted\\\" \\\\ \\u00e9\"\n";
  out += fmt::format("[engine]\nhidden = \"{}\"\ncontext_length = {}\napi_address = \"{}\"\n[limits]\ndead_after_ms = {}\n",
                     flock.engine.hidden == HiddenType::F32 ? "f32" : "bf16", flock.engine.context_length,
                     to_string(flock.engine.api_address), flock.limits.dead_after_ms);
  return out;
}

TEST(InventoryRoundTrip, AWrittenFlockReadsBackTheSame) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Flock flock = Generator(seed).flock();
    const auto back = parse_inventory(toml_of(flock), "generated");
    ASSERT_TRUE(back.has_value()) << back.error().text() << toml_of(flock);
    EXPECT_EQ(*back, flock) << "seed " << seed;
  }
}

TEST(InventoryRoundTrip, DamagedTextIsReadOrRefused) {
  const std::string text = toml_of(Generator(1).flock());
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    std::string broken = text;
    broken.erase(random() % broken.size(), 1 + random() % 3);
    broken[random() % broken.size()] = static_cast<char>(random());
    const auto back = parse_inventory(broken, "broken");
    if (back) continue;
    ++refused;
    ASSERT_FALSE(back.error().errors.empty());
  }
  EXPECT_GT(refused, 50);
}

} // namespace
} // namespace ductl::inventory
