// Against lists cut down from Debian's kernel 6.1.0-57-amd64 (debian_6_1/). igb, igc and Realtek's chips, which QEMU 7.2
// does not have, are tested here and on real machines only.
#include "netboot/image/modules/modalias.hpp"
#include "netboot/image/modules/module_index.hpp"
#include "tests/support/files.hpp"

#include <algorithm>
#include <gmock/gmock.h>

namespace ductl::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ModuleTexts debian_texts() {
  const std::filesystem::path folder = std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/image/debian_6_1";
  return {ductl::test::text_of(folder / "modules.dep"), ductl::test::text_of(folder / "modules.alias"),
          ductl::test::text_of(folder / "modules.softdep"), ductl::test::text_of(folder / "modules.builtin")};
}

ModuleIndex index_of(const ModuleTexts& texts) {
  auto index = ModuleIndex::parse(texts, "lists");
  EXPECT_TRUE(index) << index.error().text();
  return index.value_or(ModuleIndex());
}

std::vector<std::string> order_of(const ModuleIndex& index, const std::vector<std::string>& names) {
  const auto order = index.load_order(names);
  EXPECT_TRUE(order) << order.error().text();
  std::vector<std::string> flat;
  for (const std::string& file : order.value_or(std::vector<std::string>())) flat.emplace_back(flat_name(file));
  return flat;
}

TEST(LoadOrder, is_that_of_modprobe) { // modprobe -S 6.1.0-57-amd64 -d ROOT --show-depends NAME, without its repetitions
  const ModuleIndex index = index_of(debian_texts());
  EXPECT_THAT(order_of(index, {"virtio_net"}),
              ElementsAre("virtio_ring.ko", "virtio.ko", "failover.ko", "net_failover.ko", "virtio_net.ko"));
  EXPECT_THAT(order_of(index, {"virtio_pci"}), ElementsAre("virtio_ring.ko", "virtio.ko", "virtio_pci_modern_dev.ko",
                                                           "virtio_pci_legacy_dev.ko", "virtio_pci.ko"));
  EXPECT_THAT(order_of(index, {"e1000e"}), ElementsAre("e1000e.ko"));
  EXPECT_THAT(order_of(index, {"igb"}), ElementsAre("i2c-algo-bit.ko", "dca.ko", "igb.ko"));
  EXPECT_THAT(order_of(index, {"igc"}), ElementsAre("igc.ko"));
  EXPECT_THAT(order_of(index, {"r8169"}), ElementsAre("libphy.ko", "mdio_devres.ko", "realtek.ko", "r8169.ko"));
}

TEST(LoadOrder, of_several_names_every_file_once) {
  const ModuleIndex index = index_of(debian_texts());
  EXPECT_THAT(order_of(index, {"realtek", "r8169", "virtio_pci", "virtio_net", "virtio-net"}),
              ElementsAre("libphy.ko", "realtek.ko", "mdio_devres.ko", "r8169.ko", "virtio_ring.ko", "virtio.ko",
                          "virtio_pci_modern_dev.ko", "virtio_pci_legacy_dev.ko", "virtio_pci.ko", "failover.ko",
                          "net_failover.ko", "virtio_net.ko"));
}

TEST(LoadOrder, what_is_built_in_needs_no_file_and_what_is_nowhere_is_named) {
  const ModuleIndex index = index_of(debian_texts());
  EXPECT_THAT(order_of(index, {"af_packet", "8250"}), IsEmpty());
  const auto order = index.load_order({"igc", "igc2"});
  ASSERT_FALSE(order.has_value());
  EXPECT_EQ(order.error().code, ErrorCode::kImageInput);
  EXPECT_THAT(order.error().message, HasSubstr("no module \"igc2\""));
  EXPECT_EQ(order.error().place, "lists");
  EXPECT_THAT(order.error().next, HasSubstr("linux-image-amd64"));
}

TEST(LoadOrder, soft_wishes_come_before_and_behind_and_may_go_in_circles) {
  const ModuleIndex index = index_of({"x/a.ko: x/c.ko\nx/b.ko:\nx/c.ko:\nx/d.ko:\n", "",
                                      "softdep a pre: b missing post: d\nsoftdep b pre: a\nsoftdep c ignored\n", ""});
  EXPECT_THAT(order_of(index, {"a"}), ElementsAre("c.ko", "b.ko", "a.ko", "d.ko"));
}

struct Card {
  const char* name;
  const char* modalias; // of /sys/bus/*/devices/*/modalias
  std::vector<std::string> drivers;
};

const std::vector<Card>& cards() {
  static const std::vector<Card> all{
      {"I226-V", "pci:v00008086d0000125Csv00008086sd00000000bc02sc00i00", {"igc"}},
      {"I226-LM", "pci:v00008086d0000125Bsv00008086sd00000000bc02sc00i00", {"igc"}},
      {"I225-V", "pci:v00008086d000015F3sv00008086sd00000000bc02sc00i00", {"igc"}},
      {"I210", "pci:v00008086d00001533sv00008086sd00001533bc02sc00i00", {"igb"}},
      {"I211", "pci:v00008086d00001539sv00008086sd00000000bc02sc00i00", {"igb"}},
      {"I350", "pci:v00008086d00001521sv00008086sd00000001bc02sc00i00", {"igb"}},
      {"I219-V", "pci:v00008086d000015BCsv00001043sd00008672bc02sc00i00", {"e1000e"}},
      {"82574L of QEMU", "pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00", {"e1000e"}},
      {"82540EM of QEMU", "pci:v00008086d0000100Esv00001AF4sd00001100bc02sc00i00", {"e1000"}},
      {"RTL8111/8168", "pci:v000010ECd00008168sv000010ECsd00000123bc02sc00i00", {"r8169"}},
      {"RTL8125", "pci:v000010ECd00008125sv000010ECsd00008125bc02sc00i00", {"r8169"}},
      {"virtio on PCI, transitional", "pci:v00001AF4d00001000sv00001AF4sd00000001bc02sc00i00", {"virtio_pci"}},
      {"virtio on PCI, modern", "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00", {"virtio_pci"}},
      {"virtio network", "virtio:d00000001v00001AF4", {"virtio_net"}},
      {"virtio disk", "virtio:d00000002v00001AF4", {"virtio_blk"}},
      {"PCI bridge", "pci:v00008086d000029C0sv00001AF4sd00001100bc06sc00i00", {}},
      {"nothing", "", {}},
  };
  return all;
}

TEST(Modalias, finds_the_drivers_of_the_cards_that_ducks_have) {
  const ModuleIndex index = index_of(debian_texts());
  for (const Card& card : cards()) EXPECT_EQ(index.modules_for(card.modalias), card.drivers) << card.name;
}

TEST(Modalias, patterns_match_whole_and_by_case) {
  EXPECT_TRUE(modalias_matches("pci:v00008086d*sv*", "pci:v00008086d0000125Csv0"));
  EXPECT_TRUE(modalias_matches("mdio:0000000000011100110010??????????", "mdio:00000000000111001100100000000101"));
  EXPECT_TRUE(modalias_matches("a[0-9]", "a7"));
  EXPECT_FALSE(modalias_matches("a[0-9]", "ax"));
  EXPECT_FALSE(modalias_matches("pci:v00008086d0000125C", "pci:v00008086d0000125Csv0"));
  EXPECT_FALSE(modalias_matches("ci:*", "pci:v0"));
  EXPECT_FALSE(modalias_matches("pci:V*", "pci:v0"));
}

std::vector<std::string> network_files(const ModuleIndex& index) {
  const auto order = index.load_order({"virtio_net", "virtio_pci", "e1000", "e1000e", "igb", "igc", "r8169", "realtek"});
  EXPECT_TRUE(order) << order.error().text();
  return *order;
}

TEST(TrimmedLists, say_of_the_chosen_modules_what_the_whole_lists_say) {
  const ModuleIndex whole = index_of(debian_texts());
  const auto texts = whole.trimmed(network_files(whole));
  ASSERT_TRUE(texts) << texts.error().text();
  const ModuleIndex trimmed = index_of(*texts);
  for (const char* name : {"virtio_net", "virtio_pci", "e1000", "e1000e", "igb", "igc", "r8169", "realtek"})
    EXPECT_EQ(order_of(trimmed, {name}), order_of(whole, {name})) << name;
  for (const Card& card : cards()) {
    const bool chosen = card.name != std::string("virtio disk");
    EXPECT_EQ(trimmed.modules_for(card.modalias), chosen ? card.drivers : std::vector<std::string>()) << card.name;
  }
}

TEST(TrimmedLists, hold_nothing_else) {
  const ModuleIndex whole = index_of(debian_texts());
  const auto texts = whole.trimmed(network_files(whole));
  ASSERT_TRUE(texts) << texts.error().text();
  EXPECT_EQ(texts->softdep, "softdep r8169 pre: realtek\n");
  EXPECT_EQ(texts->builtin, "");
  EXPECT_THAT(texts->dep, HasSubstr("\nigb.ko: dca.ko i2c-algo-bit.ko\n"));
  EXPECT_EQ(std::count(texts->dep.begin(), texts->dep.end(), '\n'), 18);
  EXPECT_THAT(texts->dep, testing::Not(HasSubstr("/")));
  EXPECT_THAT(texts->alias, testing::Not(HasSubstr("mdio:")));
  EXPECT_THAT(texts->alias, testing::Not(HasSubstr("nvme")));
  const auto fewer = whole.trimmed({"kernel/drivers/net/phy/libphy.ko"});
  ASSERT_TRUE(fewer);
  EXPECT_EQ(fewer->dep, "libphy.ko:\n");
  EXPECT_EQ(fewer->softdep + fewer->alias, "");
}

TEST(ModuleLists, lines_that_are_not_depmods_are_named) {
  struct Case {
    ModuleTexts texts;
    const char *place, *why;
  };
  const Case cases[] = {
      {{"a.ko:\nb.ko\n", "", "", ""}, "lists/modules.dep:2", "does not begin with"},
      {{"a.xz: \n", "", "", ""}, "lists/modules.dep:1", "does not begin with"},
      {{"#a.ko:\nx/#a.ko:\n", "", "", ""}, "lists/modules.dep:2", "does not begin with"},
      {{"a b.ko:\n", "", "", ""}, "lists/modules.dep:1", "does not begin with"},
      {{"a.ko: b\n", "", "", ""}, "lists/modules.dep:1", "\"b\" is no module's file"},
      {{"a-b.ko:\nx/a_b.ko:\n", "", "", ""}, "lists/modules.dep:2", "\"a_b\" has a line already"},
      {{"a.ko: b.ko\n", "", "", ""}, "lists/modules.dep", "\"a\" needs \"b\""},
      {{"", "# all\n\nalias x\n", "", ""}, "lists/modules.alias:3", "alias PATTERN MODULE"},
      {{"", "alias x y z\n", "", ""}, "lists/modules.alias:1", "alias PATTERN MODULE"},
      {{"", "", "softdep\n", ""}, "lists/modules.softdep:1", "softdep MODULE"},
  };
  for (const Case& bad : cases) {
    const auto index = ModuleIndex::parse(bad.texts, "lists");
    ASSERT_FALSE(index.has_value()) << bad.why;
    EXPECT_EQ(index.error().code, ErrorCode::kImageInput);
    EXPECT_EQ(index.error().place, bad.place);
    EXPECT_THAT(index.error().message, HasSubstr(bad.why));
    EXPECT_THAT(index.error().next, HasSubstr("depmod"));
  }
}

} // namespace
} // namespace ductl::image
