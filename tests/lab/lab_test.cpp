// Dark virtual ducks, woken, booted and diagnosed by the built programs. QEMU without KVM, at most two VMs at once.
#include "tests/end_to_end/tiny_flock.hpp"
#include "tests/lab/lab_network.hpp"
#include "tests/lab/virtual_duck.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"

#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::lab {
namespace {

using namespace std::chrono_literals;
using test::ProgramOptions;
using test::ProgramResult;
using test::RunningProgram;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* kDuck1 = "mac=52:54:00:21:01:01,bridge=br1,tap=br1t1";
constexpr const char* kDuck2 = "mac=52:54:00:21:01:02,bridge=br1,tap=br1t2";

std::string magic_frame_of(const char* mac_byte) {
  std::string frame = std::string(6, '\xff') + std::string(6, '\x02') + "\x08\x42" + std::string(6, '\xff');
  for (int i = 0; i < 16; ++i) frame += std::string("\x52\x54\x00\x21\x01", 5) + mac_byte;
  return frame;
}

TEST(VirtualDuck, IsReadFromWords) {
  const auto duck = parse_virtual_duck("mac=52:54:00:21:01:01,bridge=br1,tap=t1,firmware=uefi-pxe,memory=512,link=100,amnesia");
  ASSERT_TRUE(duck);
  EXPECT_EQ(duck->firmware, Firmware::UefiPxe);
  EXPECT_EQ(duck->memory_mib, 512);
  EXPECT_TRUE(duck->amnesia);
  for (const char* wrong : {"", "mac=1", "mac=52:54:00:21:01:01,bridge=br1", "mac=52:54:00:21:01:01,bridge=br1,tap=t,colour=red",
                            "mac=52:54:00:21:01:01,bridge=br1,tap=t,memory=much"})
    EXPECT_FALSE(parse_virtual_duck(wrong)) << wrong;
}

TEST(PowerStrip, IsWokenByMagicPacketsOnly) {
  const std::string good = magic_frame_of("\x07");
  ASSERT_TRUE(woken_by(good));
  EXPECT_EQ(*woken_by(good), (inventory::Mac{0x52, 0x54, 0, 0x21, 1, 7}));
  EXPECT_FALSE(woken_by(good.substr(0, good.size() - 1)));
  std::string other = good;
  other[13] = 0x43; // no such ethertype
  EXPECT_FALSE(woken_by(other));
  std::string spoiled = good;
  spoiled[60] ^= 1;
  EXPECT_FALSE(woken_by(spoiled));
  EXPECT_FALSE(woken_by(std::string(12, '\0') + "\x08\x42" + std::string(102, '\xff'))); // nobody is everybody
}

class Lab : public ::testing::Test {
protected:
  // Here and not with the tests: it needs the network on its first run.
  static void SetUpTestSuite() {
    const ProgramResult built =
        test::run_program({DUCTL_CMAKE, "--build", DUCTL_BUILD_DIR, "--target", "duck-image"}, {{}, {}, 900s, {}});
    ASSERT_EQ(built.status, 0) << built.out << built.err;
  }
  void SetUp() override {
    if (const std::string why = enter_lab(); !why.empty()) GTEST_SKIP() << why;
    make_bridge("br1", "10.21.1.1/24", "br1t", 2);
    test::write_tiny_model(folder_.path() / "model");
    std::filesystem::copy_file(DUCTL_SOURCE_DIR "/tests/lab/pxe.toml", inventory());
  }
  void TearDown() override {
    if (IsSkipped()) return; // nothing was made, and this may be the machine's own network
    if (std::filesystem::exists(inventory())) (void)ductl({"down", "--yes"});
    strip_.reset();
    for (const char* bridge : {"br1", "br2"}) {
      if (::if_nametoindex(bridge) == 0) continue;
      ip(fmt::format("link del {}a", bridge));
      ip(fmt::format("link del {}", bridge));
      for (int i = 1; i <= 2; ++i)
        if (const std::string tap = fmt::format("{}t{}", bridge, i); ::if_nametoindex(tap.c_str()) != 0) ip("link del " + tap);
    }
    if (HasFailure()) show_consoles();
  }

  [[nodiscard]] std::filesystem::path inventory() const { return folder_.path() / "flock.toml"; }
  void change(const std::string& from, const std::string& to) const { test::replace_in(inventory(), from, to); }

  void plug_in(const std::vector<std::string>& ducks) {
    std::vector<std::string> argv{DUCTL_BIN_DIR "/power-strip", (folder_.path() / "vm").string()};
    argv.insert(argv.end(), ducks.begin(), ducks.end());
    strip_ = std::make_unique<RunningProgram>(argv);
    ASSERT_TRUE(strip_says("listening")); // a packet sent before would be lost
  }
  [[nodiscard]] bool strip_says(const std::string& text, std::chrono::seconds limit = 5s) const {
    return strip_->wait_for_output(text, limit);
  }

  [[nodiscard]] std::vector<std::string> argv(const std::vector<std::string>& words) const {
    std::vector<std::string> all{"ductl", "-i", inventory().string()};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  [[nodiscard]] ProgramOptions options(std::chrono::seconds limit) const {
    return {{{"XDG_STATE_HOME", (folder_.path() / "state").string()}, {"XDG_CACHE_HOME", (folder_.path() / "cache").string()}},
            {},
            limit,
            {}};
  }
  [[nodiscard]] ProgramResult ductl(const std::vector<std::string>& words, std::chrono::seconds limit = 300s) const {
    return test::run_program(argv(words), options(limit));
  }
  [[nodiscard]] nlohmann::json status() const { return nlohmann::json::parse(ductl({"status", "-o", "json"}).out); }
  [[nodiscard]] std::filesystem::path vm(const std::string& mac) const { return folder_.path() / "vm" / mac; }

  // A magic packet by hand, for tests of `ductl netboot` alone.
  static void wake(std::uint8_t last) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(9);
    to.sin_addr.s_addr = htonl(0x0a1501ff);
    const std::string frame = magic_frame_of(std::string(1, static_cast<char>(last)).c_str());
    ::sendto(fd, frame.data() + 14, frame.size() - 14, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    ::close(fd);
  }

  test::TempFolder folder_;

private:
  void show_consoles() const {
    std::error_code error;
    for (const auto& duck : std::filesystem::directory_iterator(folder_.path() / "vm", error))
      for (const char* file : {"qemu.log", "serial.log"})
        ADD_FAILURE() << duck.path().filename() << " " << file << ":\n" << test::text_of(duck.path() / file);
  }

  std::unique_ptr<RunningProgram> strip_;
};

TEST_F(Lab, UpTakesTwoDarkDucksToServingAndDownSwitchesThemOff) {
  plug_in({std::string(kDuck1) + ",firmware=bios", std::string(kDuck2) + ",firmware=uefi"});
  const ProgramResult up = ductl({"up", "-o", "json"});
  ASSERT_EQ(up.status, 0) << up.err;
  const auto after = nlohmann::json::parse(up.out);
  EXPECT_TRUE(after.at("changed"));
  EXPECT_LT(after.at("elapsed_ms").get<int>(), 300'000);
  RecordProperty("elapsed_ms", after.at("elapsed_ms").get<int>());
  const auto seen = status();
  EXPECT_TRUE(seen.at("serving"));
  for (const auto& duck : seen.at("ducks")) {
    EXPECT_EQ(duck.at("stage"), "serving") << duck;
    EXPECT_EQ(duck.at("image"), seen.at("image_wanted")) << duck;
    EXPECT_NE(duck.at("health").at("state"), "fail") << duck;
  }
  const ProgramResult again = ductl({"up"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("Nothing to do"));
  const ProgramResult down = ductl({"down", "--yes"});
  EXPECT_EQ(down.status, 0) << down.err;
  EXPECT_THAT(down.err, HasSubstr("power off duck1"));
  EXPECT_TRUE(strip_says("\"off\", \"mac\": \"52:54:00:21:01:01\"", 20s));
  EXPECT_TRUE(strip_says("\"off\", \"mac\": \"52:54:00:21:01:02\"", 20s));
}

// Every chain as far as a kernel: `ductl netboot` alone, and one duck at a time.
TEST_F(Lab, NetbootServesADuckThatIsSwitchedOnByHand) {
  plug_in({std::string(kDuck1) + ",firmware=bios"});
  RunningProgram netboot(argv({"netboot", "-o", "jsonl"}), options(200s));
  wake(1);
  EXPECT_TRUE(strip_says("\"on\""));
  EXPECT_TRUE(netboot.wait_for_output("\"kind\":\"file-sent\",\"duck\":\"duck1\"", 120s));
  EXPECT_TRUE(netboot.wait_for_output("initrd.zst (", 60s));
  const ProgramResult second = ductl({"netboot"});
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("in use"), HasSubstr("(ductl)")));
  netboot.signal(SIGINT);
  const ProgramResult ended = netboot.wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("serving image"));
}

TEST_F(Lab, ProxyModeBootsBesideSomebodyElsesDhcpServer) {
  change("enabled = true", "enabled = true\nproxy_dhcp = true");
  const OtherMachine router("br1", "10.21.1.2/24");
  const RunningProgram other(router.inside(
      {"/usr/sbin/dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--leasefile-ro", "--dhcp-authoritative",
       "--dhcp-range=10.21.1.0,static,255.255.255.0", "--dhcp-host=52:54:00:21:01:01,10.21.1.101"}));
  plug_in({std::string(kDuck1) + ",firmware=bios"});
  RunningProgram netboot(argv({"netboot", "-o", "jsonl"}), options(200s));
  wake(1);
  EXPECT_TRUE(netboot.wait_for_output("foreign-server", 120s));
  EXPECT_TRUE(netboot.wait_for_output("initrd.zst (", 60s));
  netboot.signal(SIGINT);
  (void)netboot.wait();
}

// A flock of one duck that does not come up: what `up` says, and after it `status`.
struct Sick : Lab {
  void SetUp() override {
    Lab::SetUp();
    if (IsSkipped()) return;
    change("duck[1-2]", "duck[1-1]");
    change("[101-102]", "[101-101]");
  }
  [[nodiscard]] std::string up_fails() const {
    const ProgramResult up = ductl({"up"});
    EXPECT_EQ(up.status, 1) << up.out << up.err;
    return up.err;
  }
};

TEST_F(Sick, AMuteDuck) {
  change("boot_timeout_s = 240", "boot_timeout_s = 20");
  plug_in({std::string(kDuck1) + ",mute"});
  EXPECT_THAT(up_fails(), AllOf(HasSubstr("duck1 did not come up"), HasSubstr("magic packets"), HasSubstr("nothing heard of it"),
                                HasSubstr("52:54:00:21:01:01")));
  EXPECT_TRUE(strip_says("\"magic\""));
  const auto duck = status().at("ducks").at(0);
  EXPECT_EQ(duck.at("stage"), "waking");
  EXPECT_THAT(duck.at("next").get<std::string>(), HasSubstr("docs/bios.md"));
}

TEST_F(Sick, ADuckWithAmnesia) {
  change("boot_timeout_s = 240", "boot_timeout_s = 30");
  plug_in({std::string(kDuck1) + ",amnesia"});
  EXPECT_THAT(up_fails(), AllOf(HasSubstr("nothing heard of it"), HasSubstr("network boot is not first")));
  EXPECT_TRUE(strip_says("\"on\""));
}

TEST_F(Sick, ADuckInAnotherBroadcastDomain) {
  make_bridge("br2", "10.21.2.1/24", "br2t", 1);
  change("boot_timeout_s = 240", "boot_timeout_s = 60");
  std::ofstream(inventory(), std::ios::app) << "[[port]]\nname = \"port2\"\ninterface = \"br2\"\naddress = \"10.21.2.1/24\"\n";
  change("name = \"duck[1-1]\"", "port = \"port1\"\nname = \"duck[1-1]\"");
  plug_in({"mac=52:54:00:21:01:01,bridge=br2,tap=br2t1"});
  EXPECT_THAT(up_fails(), AllOf(HasSubstr("duck1 asks on port2"), HasSubstr("the inventory has it on port1")));
}

TEST_F(Sick, ADuckWithHalfItsMemory) {
  plug_in({std::string(kDuck1) + ",memory=128"});
  EXPECT_THAT(up_fails(), AllOf(HasSubstr("duck1 is not fit to hold weights"), HasSubstr("memory")));
}

TEST_F(Sick, ADuckWithASlowLink) {
  change("cores = 1", "cores = 1\nlink_mbps = 2500");
  plug_in({std::string(kDuck1) + ",link=100"});
  const ProgramResult up = ductl({"up"});
  const std::string told = up.err + status().dump();
  EXPECT_THAT(told, AllOf(HasSubstr("100 Mb/s"), HasSubstr("2500")));
}

} // namespace
} // namespace ductl::lab
