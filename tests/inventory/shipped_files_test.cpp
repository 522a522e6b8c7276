// The two inventories that ship with the program.
#include "inventory/inventory.hpp"

#include <gtest/gtest.h>
#include <set>

namespace ductl::inventory {
namespace {

Flock shipped(const char* name) {
  auto flock = load_inventory(std::filesystem::path(DUCTL_SOURCE_DIR) / "inventory" / name);
  if (!flock) ADD_FAILURE() << flock.error().text();
  return flock ? *flock : Flock{};
}

TEST(ShippedInventory, TheLocalFlockIsFourProcessesOnLoopback) {
  const Flock flock = shipped("local.toml");
  EXPECT_EQ(flock.name, "local");
  ASSERT_EQ(flock.ducks.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(to_string(flock.ducks[i].address), "127.21.1." + std::to_string(101 + i));
  EXPECT_EQ(flock.power.kind, PowerKind::Process);
  EXPECT_EQ(flock.engine.api_address, Ipv4{0x7f000001});
  EXPECT_TRUE(settings_not_carried_out(flock).empty());
  EXPECT_TRUE(flock.file.is_absolute());
}

TEST(ShippedInventory, TheReferenceFlockIsFourPortsOfEightDucks) {
  const Flock flock = shipped("home.toml");
  ASSERT_EQ(flock.ports.size(), 4u);
  ASSERT_EQ(flock.ducks.size(), 32u);
  std::set<Mac> macs;
  for (std::size_t i = 0; i < 32; ++i) {
    const Duck& duck = flock.ducks[i];
    EXPECT_EQ(to_string(duck.address), "10.21." + std::to_string(1 + i / 8) + "." + std::to_string(101 + i % 8));
    EXPECT_EQ(duck.port_index, static_cast<int>(i / 8));
    ASSERT_TRUE(duck.mac.has_value());
    macs.insert(*duck.mac);
  }
  EXPECT_EQ(macs.size(), 32u);
  EXPECT_EQ(flock.ducks[31].name, "duck32");
  EXPECT_EQ(flock.ports[3].fanout, Fanout::Broadcast);
  EXPECT_EQ(flock.power.kind, PowerKind::WakeOnLan);
  EXPECT_TRUE(flock.netboot.enabled);
  EXPECT_EQ(flock.limits.dead_after_ms, 50);
}

TEST(ModelSource, ARelativePathIsTakenFromTheInventorysFolderWhenItIsThere) {
  Flock flock;
  flock.file = std::filesystem::path(DUCTL_SOURCE_DIR) / "inventory/local.toml";
  flock.model.source = "../inventory";
  EXPECT_EQ(model_source(flock), (std::filesystem::path(DUCTL_SOURCE_DIR) / "inventory").string());
  flock.model.source = "deepseek-ai/DeepSeek-V3.2";
  EXPECT_EQ(model_source(flock), "deepseek-ai/DeepSeek-V3.2");
  flock.model.source = "/models/x";
  EXPECT_EQ(model_source(flock), "/models/x");
}

} // namespace
} // namespace ductl::inventory
