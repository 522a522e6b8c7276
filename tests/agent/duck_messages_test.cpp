// Messages of netbooted ducks: health, adoption, announcements.
#include "agent/client/adopt_message.hpp"
#include "agent/client/announcement.hpp"
#include "agent/client/health_message.hpp"

#include <gmock/gmock.h>

namespace ductl::agent {
namespace {

using testing::HasSubstr;
using testing::Not;

Health sample_health() {
  return {{{"memory", HealthState::Fail, "15.5 GiB", "31 GiB", "a DIMM is not seated", 12, 16'600'000'000},
           {"temperature", HealthState::Unknown, "", "", "this machine has no thermal zone", 0, std::nullopt},
           {"clock", HealthState::Warn, "-3 s", "", "", 0, -3000}},
          std::string(64, 'a'),
          "0.1.0",
          99};
}

Adoption sample_adoption() {
  return {"home", "duck01", std::string(64, 'e'), {33'000'000'000, 4, 2500, std::string(64, 'a')}, 1'796'000'000'000};
}

Announcement sample_announcement() {
  return {AnnouncementKind::Failure, {0, 0xe0, 0x4c, 0x68, 1, 1}, 0x0a150165, 7421,
          "c0ffee0123456789",        std::string(64, 'a'),        "0.1.0",    81'233,
          "no link for 120 s"};
}

TEST(HealthMessage, ComesBackAsItWas) {
  const auto back = parse_health(health_text(sample_health()));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, sample_health());
  Health local = sample_health();
  local.image.clear();
  EXPECT_THAT(health_text(local), HasSubstr(R"("image":null)"));
  EXPECT_EQ(*parse_health(health_text(local)), local);
}

TEST(HealthMessage, AnUnknownStateIsNeverReadAsOk) {
  const auto error = [](const std::string& text) {
    const auto parsed = parse_health(text);
    return parsed ? std::string("accepted") : parsed.error().message;
  };
  EXPECT_THAT(
      error(
          R"({"agent":"1","uptime_s":1,"image":null,"checks":[{"name":"a","state":"fine","value":"","expected":"","advice":"","since_s":0}]})"),
      HasSubstr("'state' must be"));
  EXPECT_THAT(error(R"({"agent":"1","uptime_s":1,"checks":[7]})"), HasSubstr("must hold objects"));
  EXPECT_THAT(error(R"({"agent":"1","checks":[]})"), HasSubstr("'uptime_s' is missing"));
  std::string many = R"({"agent":"1","uptime_s":1,"checks":[0)";
  for (int i = 0; i < 300; ++i) many += ",0";
  EXPECT_THAT(error(many + "]}"), HasSubstr("more than 256"));
}

TEST(HealthMessage, TheWorstCheckCounts) {
  Health health;
  EXPECT_EQ(worst(health), HealthState::Ok);
  health.checks = {{.name = "a", .state = HealthState::Ok}, {.name = "b", .state = HealthState::Unknown}};
  EXPECT_EQ(worst(health), HealthState::Unknown);
  health.checks.push_back({.name = "c", .state = HealthState::Warn});
  EXPECT_EQ(worst(health), HealthState::Warn);
  EXPECT_EQ(worst(sample_health()), HealthState::Fail);
  EXPECT_EQ(find(sample_health(), "clock")->figure, -3000);
  EXPECT_EQ(find(sample_health(), "nothing"), nullptr);
}

TEST(AdoptMessage, ComesBackAsItWas) {
  const auto back = parse_adoption(adoption_text(sample_adoption()));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, sample_adoption());
}

TEST(AdoptMessage, WrongNamesAndKeysAreRefusedWithoutAByteOfTheKey) {
  const auto error = [](const Adoption& adoption) {
    const auto parsed = parse_adoption(adoption_text(adoption));
    return parsed ? std::string("accepted") : parsed.error().text();
  };
  Adoption adoption = sample_adoption();
  adoption.key = std::string(63, 'e') + "X";
  EXPECT_THAT(error(adoption), HasSubstr("'key' must be"));
  EXPECT_THAT(error(adoption), Not(HasSubstr("eee")));
  adoption = sample_adoption();
  adoption.name = "duck 1";
  EXPECT_THAT(error(adoption), HasSubstr("'name' must be"));
  adoption = sample_adoption();
  adoption.flock.clear();
  EXPECT_THAT(error(adoption), HasSubstr("'flock' must be"));
  adoption = sample_adoption();
  adoption.expected.image = "new";
  EXPECT_THAT(error(adoption), HasSubstr("'image' must be"));
  adoption = sample_adoption();
  adoption.time_ms = -1;
  EXPECT_THAT(error(adoption), HasSubstr("'time_ms' must be"));
}

TEST(Announcement, ComesBackAsItWas) {
  const auto back = parse_announcement(announcement_text(sample_announcement()));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, sample_announcement());
}

TEST(Announcement, AnyTextFitsTheDatagram) {
  Announcement long_one = sample_announcement();
  long_one.text = "line\n\"quoted\" \\ \xff" + std::string(5000, '"');
  long_one.image = long_one.agent = long_one.boot_id = std::string(5000, '\\');
  const std::string text = announcement_text(long_one);
  EXPECT_LE(text.size(), kAnnouncementBytesMax);
  const auto back = parse_announcement(text);
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_THAT(back->text, HasSubstr("line?'quoted' / ?"));
}

TEST(Announcement, StrangersAreRefused) {
  EXPECT_FALSE(parse_announcement(""));
  EXPECT_FALSE(parse_announcement("{}"));
  EXPECT_FALSE(parse_announcement(std::string(kAnnouncementBytesMax + 1, ' ')));
  std::string text = announcement_text(sample_announcement());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return other;
  };
  EXPECT_EQ(parse_announcement(with(R"("ductl_duck":1)", R"("ductl_duck":2)")).error().code, ErrorCode::kAgentVersion);
  EXPECT_FALSE(parse_announcement(with("failure", "gossip")));
  EXPECT_FALSE(parse_announcement(with("00:e0:4c:68:01:01", "00:e0:4c:68:01:0g")));
  EXPECT_FALSE(parse_announcement(with("10.21.1.101", "10.21.1.999")));
  EXPECT_FALSE(parse_announcement(with("no link", "no\\u001blink")));
}

} // namespace
} // namespace ductl::agent
