// The desk on a network of its own: boots served, announcements heard, stories kept, and another process followed.
#include "ductl/boot/boot_desk.hpp"

#include "agent/client/announcement.hpp"
#include "ductl/power/process_record.hpp"
#include "tests/ductl/small_image.hpp"
#include "tests/netboot/firmware.hpp"
#include "tests/netboot/own_network.hpp"
#include "tests/support/files.hpp"

#include <gmock/gmock.h>
#include <mutex>
#include <unistd.h>

namespace ductl::boot {
namespace {

using namespace std::chrono_literals;
using netboot::test::Cable;
using ::testing::HasSubstr;

constexpr inventory::Ipv4 kHost1 = 0x0a150101, kHost2 = 0x0a150201, kDuck1 = 0x0a150165;
constexpr inventory::Mac kMac1{0x52, 0x54, 0, 0x21, 1, 1};

struct BootDeskTest : ::testing::Test {
  test::TempFolder folder;
  const agent::StateFolder state{folder.path() / "state"};
  const inventory::Flock flock = two_ports();
  std::mutex mutex;
  std::vector<BootNews> news;

  void SetUp() override {
    if (const std::string why = netboot::test::enter_own_network(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(agent::make_state_folder(state));
    (void)write_small_image(folder.path() / "image");
  }
  Expected<std::unique_ptr<BootDesk>> serve() {
    const auto image = find_duck_image(std::vector{folder.path() / "image"});
    return BootDesk::serve(flock, state, &*image, [this](const BootNews& heard) {
      const std::lock_guard lock(mutex);
      news.push_back(heard);
    });
  }
  // Waits, at most ten seconds, until duck1's story is that far.
  static bool comes_to(BootDesk& desk, BootStep step) {
    for (int i = 0; i < 100 && desk.stories().ducks[0].step != step; ++i) desk.wait(100ms);
    return desk.stories().ducks[0].step == step;
  }
  long told(const std::string& kind) {
    const std::lock_guard lock(mutex);
    return std::count_if(news.begin(), news.end(), [&](const BootNews& heard) { return heard.kind == kind; });
  }
};

agent::Announcement announcement(agent::AnnouncementKind kind, std::string text = {}) {
  agent::Announcement said;
  said.kind = kind;
  said.mac = kMac1;
  said.address = kDuck1;
  said.control_port = 7421;
  said.boot_id = "00000000000000aa";
  said.agent = "0.1.0";
  said.text = std::move(text);
  return said;
}

TEST_F(BootDeskTest, ServesAndKeepsWhatItSaw) {
  Cable cable("br1", kHost1);
  const Cable other("br2", kHost2);
  {
    const auto desk = serve();
    ASSERT_TRUE(desk) << desk.error().text();
    EXPECT_EQ(*BootDesk::follow(flock, state, "any"), nullptr) << "nobody follows himself";
    EXPECT_EQ(power::load_record(server_record(state))->image,
              find_duck_image(std::vector{folder.path() / "image"})->manifest.image);
    (*desk)->wanted(0);
    (*desk)->wake_sent(0);
    EXPECT_EQ((*desk)->stories().ducks[0].step, BootStep::Woken);
    cable.send_udp(kMac1, {0, 0xffffffff, 68, 67}, netboot::test::bios_ipxe(kMac1).bytes());
    EXPECT_TRUE(cable.receive_udp(68));
    EXPECT_TRUE(comes_to(**desk, BootStep::Asked));
    const auto second = serve();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kAddressInUse);
    EXPECT_FALSE((*desk)->fault());
  }
  EXPECT_EQ(told("asked"), 1);
  EXPECT_EQ(load_stories(state, flock).ducks[0].step, BootStep::Asked);
  EXPECT_FALSE(std::filesystem::exists(server_record(state)));
}

TEST_F(BootDeskTest, HearsWhatAgentsAnnounce) {
  Cable cable("br1", kHost1);
  const Cable other("br2", kHost2);
  const auto desk = serve();
  ASSERT_TRUE(desk) << desk.error().text();
  const auto say = [&](const std::string& datagram) {
    cable.send_udp(kMac1, {kDuck1, kHost1, 30000, agent::kAnnouncementPort}, netboot::bytes_of(datagram));
  };
  say("not JSON");
  say(agent::announcement_text(announcement(agent::AnnouncementKind::Hello)));
  say(agent::announcement_text(announcement(agent::AnnouncementKind::Hello))); // it repeats until it is adopted
  ASSERT_TRUE(comes_to(**desk, BootStep::Agent));
  say(agent::announcement_text(announcement(agent::AnnouncementKind::Failure, "no memory")));
  for (int i = 0; i < 100 && told("failure") == 0; ++i) (*desk)->wait(100ms);
  EXPECT_EQ(told("hello"), 1);
  ASSERT_TRUE((*desk)->stories().ducks[0].trouble);
  EXPECT_EQ((*desk)->stories().ducks[0].trouble->text, "no memory");
}

TEST_F(BootDeskTest, HearsNobodyWhoIsOnNoPortOfTheInventory) {
  Cable cable("br1", kHost1);
  const Cable other("br2", kHost2);
  constexpr inventory::Ipv4 kOffice = 0x0a630001, kNeighbour = 0x0a630002;
  Cable office("office", kOffice);
  const auto desk = serve();
  ASSERT_TRUE(desk) << desk.error().text();
  const auto text = [](const char* what) { return announcement(agent::AnnouncementKind::Notice, what); };
  office.send_udp(kMac1, {kNeighbour, kOffice, 30000, agent::kAnnouncementPort},
                  netboot::bytes_of(agent::announcement_text(text("from the office"))));
  cable.send_udp(kMac1, {kDuck1, kHost1, 30000, agent::kAnnouncementPort},
                 netboot::bytes_of(agent::announcement_text(text("from the port"))));
  for (int i = 0; i < 100 && told("notice") == 0; ++i) (*desk)->wait(100ms);
  ASSERT_EQ(told("notice"), 1);
  const std::lock_guard lock(mutex);
  EXPECT_THAT(news.back().text, HasSubstr("from the port"));
}

TEST_F(BootDeskTest, ARepeatedHelloWritesNoFile) {
  Cable cable("br1", kHost1);
  const Cable other("br2", kHost2);
  const auto desk = serve();
  ASSERT_TRUE(desk) << desk.error().text();
  (*desk)->agent_seen(0);
  ASSERT_TRUE(std::filesystem::remove(stories_file(state)));
  (*desk)->agent_seen(0);
  EXPECT_FALSE(std::filesystem::exists(stories_file(state)));
  (*desk)->wanted(0);
  EXPECT_TRUE(std::filesystem::exists(stories_file(state)));
}

TEST_F(BootDeskTest, ADuckThatSwitchesOffIsOff) {
  Cable cable("br1", kHost1);
  const Cable other("br2", kHost2);
  {
    const auto desk = serve();
    ASSERT_TRUE(desk) << desk.error().text();
    const auto say = [&](const agent::Announcement& said) {
      cable.send_udp(kMac1, {kDuck1, kHost1, 30000, agent::kAnnouncementPort}, netboot::bytes_of(agent::announcement_text(said)));
    };
    (*desk)->agent_seen(0);
    say(announcement(agent::AnnouncementKind::Leaving, "starts anew"));
    for (int i = 0; i < 100 && told("leaving") == 0; ++i) (*desk)->wait(100ms);
    EXPECT_EQ((*desk)->stories().ducks[0].step, BootStep::Agent);
    say(announcement(agent::AnnouncementKind::Leaving, "switches off"));
    EXPECT_TRUE(comes_to(**desk, BootStep::None));
    (*desk)->agent_seen(0);
    keep_off(state, flock, 0); // who serves keeps the file
    EXPECT_EQ(load_stories(state, flock).ducks[0].step, BootStep::Agent);
  }
  keep_off(state, flock, 0);
  EXPECT_EQ(load_stories(state, flock).ducks[0].step, BootStep::None);
  EXPECT_TRUE(load_stories(state, flock).ducks[0].came_before);
}

TEST_F(BootDeskTest, APortWithoutItsAddressIsNamed) {
  const Cable cable("br1", kHost2);
  const auto desk = serve();
  ASSERT_FALSE(desk);
  EXPECT_THAT(desk.error().place, HasSubstr("port1 (br1)"));
  EXPECT_THAT(desk.error().next, HasSubstr("ip addr add 10.21.1.1/24 dev br1"));
}

TEST_F(BootDeskTest, AProcessThatServesAnotherImageIsNotFollowed) {
  EXPECT_EQ(*BootDesk::follow(flock, state, "new"), nullptr);
  power::ProcessRecord server = power::record_of(::getppid()).value();
  for (const char* const served : {"", "old"}) {
    server.image = served;
    ASSERT_TRUE(power::save_record(server, server_record(state)));
    const auto followed = BootDesk::follow(flock, state, "new");
    ASSERT_FALSE(followed);
    EXPECT_EQ(followed.error().code, ErrorCode::kBootServer);
    EXPECT_THAT(followed.error().message, HasSubstr("wanted is new"));
    EXPECT_THAT(followed.error().next, HasSubstr("restart `ductl netboot`"));
  }
  server.image = "new";
  ASSERT_TRUE(power::save_record(server, server_record(state)));
  EXPECT_TRUE(BootDesk::follow(flock, state, "new").value());
  EXPECT_TRUE(BootDesk::follow(flock, state, "").value());
}

// Another process serves: this one's parent will do, as long as it lives.
TEST_F(BootDeskTest, FollowsTheProcessThatServes) {
  ASSERT_TRUE(power::save_record(power::record_of(::getppid()).value(), server_record(state)));
  const auto followed = BootDesk::follow(flock, state, "");
  ASSERT_TRUE(followed && *followed);
  const auto& desk = *followed;
  desk->wanted(0);
  desk->wake_sent(0);
  EXPECT_EQ(desk->stories().ducks[0].step, BootStep::Woken);
  BootStories served = untold(flock);
  note_event(served,
             {.kind = netboot::BootEventKind::Asked, .port_index = 0, .duck_index = 0, .mac = kMac1, .file = {}, .text = {}}, {},
             std::chrono::system_clock::now() + 1s);
  std::ofstream(stories_file(state)) << stories_text(served);
  EXPECT_EQ(desk->stories().ducks[0].step, BootStep::Asked);
  EXPECT_EQ(desk->stories().ducks[0].wakes, 1);
  EXPECT_FALSE(desk->fault());
  std::filesystem::remove(server_record(state));
  ASSERT_TRUE(desk->fault());
  EXPECT_THAT(desk->fault()->message, HasSubstr("ductl netboot"));
}

} // namespace
} // namespace ductl::boot
