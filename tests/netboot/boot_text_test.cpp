// What is made of a plan: its check, the iPXE scripts, the router advertisement.
#include "netboot/boot_script.hpp"
#include "netboot/event_limit.hpp"
#include "netboot/router/advertisement.hpp"

#include "sample_plan.hpp"

#include <functional>
#include <gmock/gmock.h>

namespace ductl::netboot {
namespace {

using namespace test;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BootPlan, TheSampleIsSound) { EXPECT_TRUE(check_plan(sample_plan())); }

TEST(BootPlan, FaultsAreFound) {
  const std::vector<std::pair<const char*, std::function<void(BootPlan&)>>> faults{
      {"no port", [](BootPlan& p) { p.ducks[0].port_index = 2; }},
      {"negative port", [](BootPlan& p) { p.ducks[0].port_index = -1; }},
      {"no address in full mode", [](BootPlan& p) { p.ducks[0].address = 0; }},
      {"outside of the network", [](BootPlan& p) { p.ducks[0].address = kDuck3; }},
      {"the host's own", [](BootPlan& p) { p.ducks[0].address = kHost1; }},
      {"address twice", [](BootPlan& p) { p.ducks[1].address = kDuck1; }},
      {"MAC twice", [](BootPlan& p) { p.ducks[1].mac = kMac1; }},
      {"no MAC", [](BootPlan& p) { p.ducks[0].mac = {}; }},
      {"group MAC", [](BootPlan& p) { p.ducks[0].mac[0] = 1; }},
      {"duck name", [](BootPlan& p) { p.ducks[0].name = "a b"; }},
      {"interface", [](BootPlan& p) { p.ports[0].interface = ""; }},
      {"long interface", [](BootPlan& p) { p.ports[0].interface = "sixteen-letters-"; }},
      {"port address", [](BootPlan& p) { p.ports[0].address = 0; }},
      {"prefix", [](BootPlan& p) { p.ports[0].prefix_length = 31; }},
      {"file name", [](BootPlan& p) { p.names.uki = "../duck.efi"; }},
      {"arguments", [](BootPlan& p) { p.kernel_arguments = "a || reboot"; }},
      {"arguments, line", [](BootPlan& p) { p.kernel_arguments = "a\nreboot"; }},
      {"lease", [](BootPlan& p) { p.lease = std::chrono::seconds(1); }},
  };
  for (const auto& [what, spoil] : faults) {
    BootPlan plan = sample_plan();
    spoil(plan);
    const auto checked = check_plan(plan);
    ASSERT_FALSE(checked) << what;
    EXPECT_FALSE(checked.error().place.empty()) << what;
    EXPECT_FALSE(checked.error().next.empty()) << what;
  }
}

TEST(BootScript, NamesTheImageByHashAndTheAddressOfTheInventory) {
  BootPlan plan = sample_plan();
  plan.kernel_arguments = "console=ttyS0";
  const std::string script = boot_script(plan, plan.ducks[0], {"sha256/aa/vmlinuz", "sha256/bb/initrd.zst"});
  EXPECT_TRUE(script.starts_with("#!ipxe\n"));
  EXPECT_THAT(script, HasSubstr("kernel http://10.21.1.1/sha256/aa/vmlinuz initrd=initrd ip=10.21.1.101:10.21.1.1::255.255.255.0 "
                                "BOOTIF=01-52-54-00-21-01-01 console=ttyS0 || goto again\n"));
  EXPECT_THAT(script, HasSubstr("initrd --name initrd http://10.21.1.1/sha256/bb/initrd.zst || goto again\n"));
}

TEST(BootScript, OfADuckWithoutAnAddressTakesTheOneThatIpxeHas) {
  const BootPlan plan = sample_plan();
  EXPECT_THAT(boot_script(plan, plan.ducks[3], {"k", "i"}),
              HasSubstr(" ip=${netX/ip}:10.21.2.1:${netX/gateway}:${netX/netmask} "));
}

TEST(BootScript, AutoexecGoesOnToTheScriptOfItsMac) {
  BootPlan plan = sample_plan();
  EXPECT_THAT(autoexec_script(plan), HasSubstr("chain http://${next-server}/boot/${netX/mac:hexhyp}.ipxe || goto again\n"));
  plan.http_port = 8069;
  EXPECT_THAT(autoexec_script(plan), HasSubstr("http://${next-server}:8069/boot/"));
  EXPECT_EQ(script_name(kMac1), "boot/52-54-00-21-01-01.ipxe");
}

TEST(BootScript, EveryDuckHasOneAmongTheFiles) {
  const BootPlan plan = sample_plan();
  BootFiles files;
  files.add("vmlinuz", BootFile::from_bytes(bytes_of("k")).value());
  const auto early = add_scripts(plan, files);
  ASSERT_FALSE(early);
  EXPECT_THAT(early.error().message, HasSubstr("initrd.zst"));
  files.add("initrd.zst", BootFile::from_bytes(bytes_of("i")).value());
  ASSERT_TRUE(add_scripts(plan, files));
  for (const BootDuck& duck : plan.ducks) {
    const auto script = files.find(script_name(duck.mac));
    ASSERT_TRUE(script);
    EXPECT_THAT(std::string(text_of(script->bytes())), HasSubstr(files.hashed_name("vmlinuz")));
  }
  EXPECT_TRUE(files.find("autoexec.ipxe"));
}

TEST(EventLimit, AFloodIsCutAndSaysSo) {
  EventLimit limit;
  Instant now(std::chrono::hours(1));
  const auto told = [&](BootEventKind kind, int count) {
    int passed = 0;
    for (int i = 0; i < count; ++i) {
      BootEvent event{.kind = kind, .when = now, .mac = {}, .file = {}, .text = "x"};
      if (!limit.admit(event)) continue;
      ++passed;
      EXPECT_EQ(event.text != "x", kind == BootEventKind::FileFailed && passed == EventLimit::kEventsMax);
    }
    return passed;
  };
  EXPECT_EQ(told(BootEventKind::FileFailed, 1000), EventLimit::kEventsMax);
  EXPECT_EQ(told(BootEventKind::FileSent, 100), 100);
  EXPECT_EQ(told(BootEventKind::Trouble, 100), 0); // of the same budget
  now += EventLimit::kWindow;
  EXPECT_EQ(told(BootEventKind::FileFailed, 100), EventLimit::kEventsMax);
}

Bytes solicitation(const Mac& mac) {
  Bytes packet = Writer().u32(6u << 28).u16(16).u8(58).u8(255).raw(link_local(mac)).u32(0xff020000).zeros(11).u8(2).take();
  Writer message;
  message.u8(133).u8(0).u16(0).u32(0).u8(1).u8(1).raw(mac);
  Writer pseudo; // RFC 8200 section 8.1, written out
  pseudo.raw(ByteView(packet).subspan(8, 32)).u32(16).u32(58).raw(ByteView(message.bytes()));
  message.patch_u16(2, internet_checksum({pseudo.bytes()}));
  packet.insert(packet.end(), message.bytes().begin(), message.bytes().end());
  return packet;
}

TEST(RouterAdvertisement, EveryByte) {
  const Bytes packet = router_advertisement({0x52, 0x54, 0, 0x12, 0x34, 0x56});
  std::string hex;
  for (const std::byte b : packet) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(b));
    hex += two;
  }
  EXPECT_EQ(hex.substr(0, 80), "60000000"
                               "0018"
                               "3a"
                               "ff"
                               "fe80000000000000"
                               "505400fffe123456"
                               "ff02000000000000"
                               "0000000000000001");
  EXPECT_EQ(hex.substr(80, 4), "8600");
  EXPECT_EQ(hex.substr(88), "40000000"
                            "00000000"
                            "00000000"
                            "0101"
                            "525400123456");
  const ByteView view(packet);
  const Bytes lengths = Writer().u32(24).u32(58).take();
  EXPECT_EQ(internet_checksum({view.subspan(8, 32), lengths, view.subspan(40)}), 0);
}

TEST(RouterSolicitation, SoundOnesAreKnown) {
  Bytes packet = solicitation(kMac1);
  EXPECT_TRUE(is_router_solicitation(packet));
  packet.resize(packet.size() + 6); // padding
  EXPECT_TRUE(is_router_solicitation(packet));
}

TEST(RouterSolicitation, EveryFlippedBitAndEveryCutIsFound) {
  const Bytes sound = solicitation(kMac1);
  for (std::size_t length = 0; length < sound.size(); ++length)
    ASSERT_FALSE(is_router_solicitation(ByteView(sound).first(length)));
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    Bytes bytes = sound;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const bool label = bit < 32 && (bit / 8 > 0 || bit % 8 < 4); // traffic class and flow label mean nothing here
    EXPECT_EQ(is_router_solicitation(bytes), label) << bit;
  }
}

} // namespace
} // namespace ductl::netboot
