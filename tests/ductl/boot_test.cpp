// From an inventory to a boot plan and an image; from events to stories; from stories to what a person should do.
#include "ductl/boot/boot_diagnosis.hpp"
#include "ductl/boot/duck_image.hpp"
#include "ductl/boot/esp_writer.hpp"
#include "ductl/boot/flock_boot_plan.hpp"

#include "tests/ductl/small_image.hpp"
#include "tests/support/files.hpp"

#include <fstream>
#include <gmock/gmock.h>

namespace ductl::boot {
namespace {

using namespace std::chrono_literals;
using netboot::BootEvent;
using netboot::BootEventKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

inventory::Flock flock() { return two_ports(); }

TEST(FlockBootPlan, IsWhatTheInventorySays) {
  const netboot::BootPlan plan = flock_boot_plan(flock(), "console=ttyS0");
  ASSERT_TRUE(netboot::check_plan(plan)) << netboot::check_plan(plan).error().text();
  ASSERT_EQ(plan.ports.size(), 2u);
  EXPECT_EQ(plan.ports[1].interface, "br2");
  EXPECT_EQ(plan.ports[1].mode, netboot::DhcpMode::Full);
  ASSERT_EQ(plan.ducks.size(), 3u);
  EXPECT_EQ(plan.ducks[1].mac, (inventory::Mac{0x52, 0x54, 0, 0x21, 1, 2}));
  EXPECT_EQ(plan.ducks[1].chain, netboot::Chain::Ipxe);
  EXPECT_EQ(plan.ducks[2].chain, netboot::Chain::Uki);
  EXPECT_EQ(plan.ducks[2].port_index, 1);
  EXPECT_EQ(plan.ducks[2].proxy_style, netboot::ProxyStyle::Port4011);
  EXPECT_EQ(plan.kernel_arguments, "console=ttyS0");
  EXPECT_EQ(plan.http_port, 8069);
  inventory::Flock beside = flock();
  beside.netboot.proxy_dhcp = true;
  EXPECT_EQ(flock_boot_plan(beside, "").ports[0].mode, netboot::DhcpMode::Proxy);
}

struct DuckImageTest : ::testing::Test {
  test::TempFolder folder;
};

TEST_F(DuckImageTest, IsLookedForBesideTheProgramAndWhereItIsInstalled) {
  EXPECT_THAT(image_folders(flock(), "/b/build/bin/ductl"), ElementsAre("/b/build/netboot/image", "/b/build/share/ductl/image"));
  inventory::Flock named = flock();
  named.file = "/etc/ductl/flock.toml";
  named.netboot.image = "images/new";
  EXPECT_THAT(image_folders(named, "/b/build/bin/ductl"), ElementsAre("/etc/ductl/images/new"));
}

TEST_F(DuckImageTest, WithoutOneItSaysHowToMakeOne) {
  const auto found = find_duck_image(std::vector{folder.path() / "none", folder.path() / "neither"});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kBootFile);
  EXPECT_THAT(found.error().place, HasSubstr("neither"));
  EXPECT_THAT(found.error().next, HasSubstr("ninja -C build duck-image"));
}

TEST_F(DuckImageTest, IsReadWithItsLoadersAndEveryDigestChecked) {
  const image::Manifest manifest = write_small_image(folder.path() / "image");
  const auto found = find_duck_image(std::vector{folder.path() / "none", folder.path() / "image"});
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->manifest.image, manifest.image);
  const auto files = load_boot_files(*found);
  ASSERT_TRUE(files) << files.error().text();
  for (const char* name : {"duck.efi", "vmlinuz", "initrd.zst", "ipxe.efi", "undionly.kpxe"})
    EXPECT_TRUE(files->find(name)) << name;
  std::ofstream(folder.path() / "image/vmlinuz") << "half of ano";
  const auto changed = load_boot_files(*found);
  ASSERT_FALSE(changed);
  EXPECT_THAT(changed.error().message, HasSubstr("vmlinuz is not the file that the image's manifest names"));
}

TEST_F(DuckImageTest, IsWrittenAsTheLoaderOfAnEspOnceAndNotOverAnotherSystems) {
  (void)write_small_image(folder.path() / "image");
  const auto image = find_duck_image(std::vector{folder.path() / "image"});
  ASSERT_TRUE(image);
  const std::filesystem::path esp = folder.path() / "esp";
  const auto nowhere = write_esp(*image, esp, false);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kUsage);
  std::filesystem::create_directories(esp);
  const auto first = write_esp(*image, esp, false);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_TRUE(first->changed);
  EXPECT_EQ(test::text_of(esp / "EFI/BOOT/BOOTX64.EFI"), "duck.efi");
  EXPECT_FALSE(write_esp(*image, esp, false)->changed);

  std::ofstream(esp / "EFI/BOOT/BOOTX64.EFI") << "GRUB";
  const auto foreign = write_esp(*image, esp, false);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, ErrorCode::kNotConfirmed);
  EXPECT_EQ(test::text_of(esp / "EFI/BOOT/BOOTX64.EFI"), "GRUB");
  std::ofstream(esp / "EFI/BOOT/BOOTX64.EFI") << "ID=duck\nof another day";
  EXPECT_TRUE(write_esp(*image, esp, false)->changed);
}

struct BootStoryTest : ::testing::Test {
  const inventory::Flock inventory = flock();
  BootStories stories = untold(inventory);
  WallTime now = WallTime(std::chrono::hours(24 * 365));
  const BootPatience patience = patience_of(inventory.limits);

  void see(BootEventKind kind, int duck, const std::string& file = {}, const std::string& text = {}) {
    BootEvent event{.kind = kind,
                    .port_index = duck < 0 ? 0 : inventory.ducks[static_cast<std::size_t>(duck)].port_index,
                    .duck_index = duck,
                    .mac = {0x52, 0x54, 0, 9, 9, 9},
                    .file = file,
                    .text = text};
    note_event(stories, event, {}, now);
  }
  void wake(std::size_t duck, int packets = 3) {
    note_wanted(stories, duck, now);
    for (int i = 0; i < packets; ++i) note_wake(stories, duck, now);
  }
  [[nodiscard]] BootVerdict verdict(std::size_t duck) const { return diagnose_boot(stories, duck, inventory, patience, now); }
};

TEST_F(BootStoryTest, FollowsABootToItsAgent) {
  wake(0);
  EXPECT_EQ(stories.ducks[0].step, BootStep::Woken);
  see(BootEventKind::Asked, 0);
  see(BootEventKind::Leased, 0);
  see(BootEventKind::FileBegun, 0, "ipxe.efi");
  EXPECT_EQ(stories.ducks[0].step, BootStep::Loader);
  now += 5s;
  see(BootEventKind::FileBegun, 0, "sha256/abc/vmlinuz");
  EXPECT_EQ(stories.ducks[0].step, BootStep::Image);
  EXPECT_EQ(stories.ducks[0].since, now);
  see(BootEventKind::FileSent, 0, "ipxe.efi"); // told late: no step back
  EXPECT_EQ(stories.ducks[0].step, BootStep::Image);
  see(BootEventKind::AgentAsked, 0);
  EXPECT_EQ(stories.ducks[0].step, BootStep::Agent);
  EXPECT_TRUE(stories.ducks[0].came_before);
  EXPECT_EQ(stories.ducks[1], untold(inventory).ducks[1]);
}

TEST_F(BootStoryTest, ADuckThatWasSwitchedOffHasNothingToSayAndHasComeBefore) {
  note_agent(stories, 0, now);
  ASSERT_THAT(verdict(0).reason, HasSubstr("does not answer"));
  note_off(stories, 0, now);
  EXPECT_EQ(stories.ducks[0].step, BootStep::None);
  EXPECT_TRUE(stories.ducks[0].came_before);
  EXPECT_EQ(verdict(0).reason, "");
}

TEST_F(BootStoryTest, ADuckThatIsSwitchedOffWhileItIsWaitedForIsNotWaitedForForEver) {
  note_wanted(stories, 0, now);
  note_off(stories, 0, now);
  now += patience.boot;
  EXPECT_TRUE(verdict(0).given_up);
}

TEST_F(BootStoryTest, ABootIsUnderWayFromItsFirstWakeUntilItsAgentComesOrItIsGivenUp) {
  const auto under_way = [&] { return is_under_way(stories.ducks[0], verdict(0), patience, now); };
  EXPECT_FALSE(under_way());
  wake(0);
  EXPECT_TRUE(under_way());
  see(BootEventKind::Asked, 0);
  see(BootEventKind::FileBegun, 0, "vmlinuz");
  EXPECT_TRUE(under_way());
  const BootStories stood = stories;
  note_agent(stories, 0, now);
  EXPECT_FALSE(under_way());
  stories = stood;
  see(BootEventKind::OtherSystem, 0, {}, "a disk started");
  EXPECT_FALSE(under_way()) << "it will say the same again";
  stories = untold(inventory);
  see(BootEventKind::Asked, 0); // switched on by hand: nobody waits for it
  EXPECT_TRUE(under_way());
  now += patience.boot;
  EXPECT_FALSE(under_way());
}

TEST_F(BootStoryTest, ALoopIsOneUntilAnAgentComes) {
  see(BootEventKind::BootLoop, 0, "", "three starts");
  see(BootEventKind::Asked, 0);
  ASSERT_TRUE(stories.ducks[0].trouble);
  see(BootEventKind::FileFailed, 0, "vmlinuz", "ended early");
  EXPECT_EQ(stories.ducks[0].trouble->text, "three starts");
  EXPECT_TRUE(verdict(0).given_up);
  note_agent(stories, 0, now);
  EXPECT_FALSE(stories.ducks[0].trouble);
}

TEST_F(BootStoryTest, AnotherTroubleEndsWithTheNextStart) {
  see(BootEventKind::FileFailed, 0, "vmlinuz", "ended early");
  EXPECT_THAT(verdict(0).reason, HasSubstr("ended early"));
  EXPECT_FALSE(verdict(0).given_up);
  see(BootEventKind::Asked, 0);
  EXPECT_FALSE(stories.ducks[0].trouble);
}

TEST_F(BootStoryTest, IsKeptAsTextAndReadBack) {
  wake(0);
  see(BootEventKind::Asked, 0);
  see(BootEventKind::WrongPort, 2, "", "duck3 asks on port1");
  see(BootEventKind::UnknownMac, -1);
  see(BootEventKind::ForeignServer, -1, "", "DHCP server 10.21.1.9");
  EXPECT_EQ(parse_stories(stories_text(stories), inventory), stories);
  EXPECT_EQ(parse_stories("[1", inventory), untold(inventory));
  EXPECT_EQ(parse_stories(R"({"ducks": [{"name": "duck1", "step": 7}, 3], "ports": 1})", inventory), untold(inventory));
  EXPECT_EQ(parse_stories(R"({"ducks": [{"name": "left", "step": "agent"}]})", inventory), untold(inventory));
}

TEST_F(BootStoryTest, ADuckThatWasNeverWokenHasNothingToSay) { EXPECT_EQ(verdict(0).reason, ""); }

TEST_F(BootStoryTest, SilenceIsGivenUpAfterAWhileAndSaysWhatToLookAt) {
  wake(0);
  now += 30s;
  EXPECT_FALSE(verdict(0).given_up);
  EXPECT_TRUE(is_sought_everywhere(stories.ducks[0], patience, now));
  now += 60s;
  const BootVerdict silent = verdict(0);
  EXPECT_TRUE(silent.given_up);
  EXPECT_THAT(silent.reason, HasSubstr("3 magic packets"));
  EXPECT_THAT(silent.next, HasSubstr("52:54:00:21:01:01"));
  EXPECT_THAT(silent.next, HasSubstr("wake-on-LAN is off in its BIOS"));
}

TEST_F(BootStoryTest, ADuckThatCameBeforeHasLostItsBiosSettingsOrItsPower) {
  note_agent(stories, 0, now);
  now += std::chrono::hours(100);
  wake(0);
  now += 95s;
  EXPECT_THAT(verdict(0).next, HasSubstr("CR2032"));
}

TEST_F(BootStoryTest, AStrangerOnTheSamePortMayBeTheDuck) {
  wake(0);
  see(BootEventKind::UnknownMac, -1);
  now += 95s;
  EXPECT_THAT(verdict(0).next, HasSubstr("52:54:00:09:09:09"));
}

TEST_F(BootStoryTest, ADiskThatStartsIsAmnesia) {
  wake(0);
  see(BootEventKind::OtherSystem, 0, "", "duck1 has 10.21.1.101, asked for by another system than ours");
  const BootVerdict amnesia = verdict(0);
  EXPECT_TRUE(amnesia.given_up);
  EXPECT_THAT(amnesia.next, HasSubstr("ductl image esp"));
}

TEST_F(BootStoryTest, AnotherBroadcastDomainIsNamed) {
  wake(0);
  see(BootEventKind::WrongPort, 0, "", "duck1 asks on port2, and the inventory has it on port1");
  EXPECT_TRUE(verdict(0).given_up);
  EXPECT_THAT(verdict(0).reason, HasSubstr("asks on port2"));
  EXPECT_FALSE(is_sought_everywhere(stories.ducks[0], patience, now + 80s));
}

TEST_F(BootStoryTest, EveryStepThatIsStoodAtHasANextStep) {
  const std::vector<std::pair<BootEventKind, std::string>> way{{BootEventKind::Asked, ""},
                                                               {BootEventKind::Leased, ""},
                                                               {BootEventKind::FileBegun, "undionly.kpxe"},
                                                               {BootEventKind::FileSent, "initrd.zst"},
                                                               {BootEventKind::AgentAsked, ""}};
  wake(1);
  for (const auto& [kind, file] : way) {
    see(kind, 1, file);
    now += 20s;
    const BootVerdict standing = verdict(1);
    EXPECT_THAT(standing.reason, HasSubstr("20 s")) << to_string(stories.ducks[1].step);
    EXPECT_THAT(standing.next, Not(::testing::IsEmpty()));
    EXPECT_FALSE(standing.given_up);
  }
  now += std::chrono::seconds(inventory.limits.boot_timeout_s);
  EXPECT_TRUE(verdict(1).given_up) << "an agent that came and does not answer is waited for no longer than a boot";
}

TEST_F(BootStoryTest, ABootThatTakesLongerThanTheLimitIsGivenUp) {
  wake(1);
  see(BootEventKind::Asked, 1);
  see(BootEventKind::FileBegun, 1, "vmlinuz");
  now += std::chrono::seconds(inventory.limits.boot_timeout_s);
  EXPECT_TRUE(verdict(1).given_up);
  EXPECT_THAT(verdict(1).next, HasSubstr("a NIC without a driver"));
}

TEST_F(BootStoryTest, WhatAnAgentSaysOfItselfIsItsReason) {
  wake(1);
  note_agent_failed(stories, 1, "no NIC has a link", now);
  EXPECT_EQ(verdict(1).reason, "no NIC has a link");
}

} // namespace
} // namespace ductl::boot
