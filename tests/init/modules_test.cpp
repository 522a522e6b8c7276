// Which drivers a duck loads, by the files of its image and of its buses.
#include "agent/init/modules.hpp"
#include "tests/health/machine_tree.hpp"

#include <gmock/gmock.h>

namespace ductl::agent::init {
namespace {

using agent::test::MachineTree;
using testing::ElementsAre;
using testing::HasSubstr;

class ModulesTest : public testing::Test {
protected:
  ModulesTest() {
    tree.write("modules/modules.dep",
               "failover.ko:\nnet_failover.ko: failover.ko\nvirtio.ko:\nvirtio_net.ko: net_failover.ko failover.ko virtio.ko\n"
               "virtio_pci.ko: virtio.ko\nsoftdog.ko:\n");
    tree.write("modules/modules.alias", "alias pci:v00001AF4d*sv*sd*bc*sc*i* virtio_pci\nalias virtio:d00000001v* virtio_net\n");
    tree.write("modules/modules.softdep", "");
    tree.write("sys/bus/pci/devices/0000:00:02.0/modalias", "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00\n");
    tree.write("sys/bus/pci/devices/0000:00:1f.0/modalias", "pci:v00008086d00002918sv00001AF4sd00001100bc06sc01i00\n");
  }
  Modules modules() {
    return Modules(tree.files(), [this](const std::string& file) -> Expected<void> {
      loaded.push_back(file);
      if (file == broken) return fail(ErrorCode::kState, "it does not fit");
      return {};
    });
  }

  MachineTree tree;
  std::vector<std::string> loaded;
  std::string broken;
};

TEST_F(ModulesTest, DevicesThatAppearLaterAreServedTheNextTime) {
  Modules all = modules();
  EXPECT_EQ(*all.load_for_devices(), 2);
  EXPECT_THAT(loaded, ElementsAre("virtio.ko", "virtio_pci.ko"));
  EXPECT_EQ(*all.load_for_devices(), 0);
  tree.write("sys/bus/virtio/devices/virtio0/modalias", "virtio:d00000001v00001AF4\n");
  EXPECT_EQ(*all.load_for_devices(), 3);
  EXPECT_THAT(loaded, ElementsAre("virtio.ko", "virtio_pci.ko", "failover.ko", "net_failover.ko", "virtio_net.ko"));
}

TEST_F(ModulesTest, OneThatDoesNotLoadHoldsNoOtherUp) {
  broken = "virtio.ko";
  Modules all = modules();
  EXPECT_EQ(*all.load_for_devices(), 2);
  EXPECT_THAT(loaded, ElementsAre("virtio.ko", "virtio_pci.ko"));
}

TEST_F(ModulesTest, NamesThatTheImageLacksAreSkipped) {
  Modules all = modules();
  EXPECT_EQ(*all.load_by_name({"iTCO_wdt", "softdog"}), 1);
  EXPECT_THAT(loaded, ElementsAre("softdog.ko"));
}

TEST_F(ModulesTest, DamagedListsAreNamed) {
  tree.write("modules/modules.dep", "no colon here\n");
  const auto loading = modules().load_for_devices();
  ASSERT_FALSE(loading);
  EXPECT_THAT(loading.error().place, HasSubstr("/modules/modules.dep:1"));
}

TEST_F(ModulesTest, AFileThatIsNoModuleIsRefusedByTheKernel) {
  tree.write("modules/softdog.ko", "not an ELF file");
  const auto loading = load_module(tree.files(), "softdog.ko");
  ASSERT_FALSE(loading);
  EXPECT_THAT(loading.error().message, HasSubstr("softdog.ko cannot be loaded"));
  EXPECT_FALSE(load_module(tree.files(), "absent.ko"));
}

} // namespace
} // namespace ductl::agent::init
