#include "netboot/tftp/sessions.hpp"

#include "tftp_client.hpp"

#include <gmock/gmock.h>

namespace ductl::netboot::tftp {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using test::TftpClient;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Lab {
  Lab() : sessions(files, events, [](Ipv4 a) { return inventory::to_string(a); }) {
    const Bytes loader(850'000, std::byte{0x4d});
    files.add("ipxe.efi", BootFile::from_bytes(loader).value());
  }
  Sessions::Opened open(const std::string& request, std::uint16_t port = 2000, Ipv4 address = 0x0a150165) {
    return sessions.open({0, address, port}, bytes_of(request), 1468, now);
  }
  [[nodiscard]] long count(BootEventKind kind) const {
    return std::count_if(events.begin(), events.end(), [&](const BootEvent& e) { return e.kind == kind; });
  }
  // Everything that client and session have to say to each other.
  void converse(Sessions::Id id, TftpClient& client, std::vector<Bytes> to_client) {
    while (!to_client.empty()) {
      std::vector<Bytes> next;
      for (const Bytes& packet : to_client)
        for (const Bytes& answer : client.feed(packet))
          for (Bytes& more : sessions.feed(id, answer, now)) next.push_back(std::move(more));
      to_client = std::move(next);
    }
  }

  BootFiles files;
  std::vector<BootEvent> events;
  Sessions sessions;
  Instant now{1h};
};

const std::string kPlainRequest = "\0\1ipxe.efi\0octet\0"s;

TEST(TftpSessions, ATransferIsToldFromBeginningToEnd) {
  Lab lab;
  TftpClient client({1468, 4, true});
  auto opened = lab.open(std::string(text_of(client.request("ipxe.efi"))));
  ASSERT_TRUE(opened.session);
  lab.converse(*opened.session, client, opened.packets);
  EXPECT_TRUE(client.done());
  EXPECT_EQ(client.size(), 850'000u);
  EXPECT_EQ(client.file().size(), 850'000u);
  EXPECT_FALSE(lab.sessions.running(*opened.session));
  ASSERT_EQ(lab.events.size(), 2u);
  EXPECT_EQ(lab.events[0].kind, BootEventKind::FileBegun);
  EXPECT_EQ(lab.events[1].kind, BootEventKind::FileSent);
  EXPECT_EQ(lab.events[1].file, "ipxe.efi");
  EXPECT_THAT(lab.events[1].text, HasSubstr("850000 bytes"));
}

TEST(TftpSessions, NamesAreNotPaths) {
  Lab lab;
  for (const std::string name :
       {"/etc/passwd", "../../etc/passwd", "./../ipxe.efi", "", "ipxe.efi/", "IPXE.EFI", "boot/../ipxe.efi", "\\ipxe.efi"}) {
    const auto opened = lab.open("\0\1"s + name + "\0octet\0"s);
    EXPECT_FALSE(opened.session) << name;
    ASSERT_EQ(opened.packets.size(), 1u);
    EXPECT_EQ(text_of(opened.packets[0]).substr(0, 4), "\0\5\0\1"s);
  }
  EXPECT_TRUE(lab.open("\0\1/ipxe.efi\0octet\0"s).session);
}

TEST(TftpSessions, StrangeNamesAreShownHarmlessly) {
  Lab lab;
  (void)lab.open("\0\1a\x1b[2J\n\0octet\0"s);
  EXPECT_THAT(lab.events.at(0).text, HasSubstr("'a?[2J?'"));
}

TEST(TftpSessions, ARepeatedRequestOpensNoSecondTransfer) {
  Lab lab;
  EXPECT_TRUE(lab.open(kPlainRequest).session);
  const auto again = lab.open(kPlainRequest);
  EXPECT_FALSE(again.session);
  EXPECT_THAT(again.packets, IsEmpty());
  EXPECT_EQ(lab.sessions.size(), 1u);
}

TEST(TftpSessions, AreBounded) {
  Lab lab;
  for (std::size_t i = 0; i < kSessionsPerClient; ++i)
    EXPECT_TRUE(lab.open(kPlainRequest, static_cast<std::uint16_t>(2000 + i)).session);
  const auto more = lab.open(kPlainRequest, 3000);
  EXPECT_FALSE(more.session);
  EXPECT_THAT(std::string(text_of(more.packets.at(0))), HasSubstr("too many transfers"));
  for (std::uint32_t i = 0; lab.sessions.size() < kSessionsMax; ++i)
    ASSERT_TRUE(lab.open(kPlainRequest, 2000, 0x0a150200 + i).session);
  EXPECT_FALSE(lab.open(kPlainRequest, 2000, 0x0a150901).session);
  EXPECT_GE(lab.count(BootEventKind::Trouble), 2);
}

TEST(TftpSessions, ASilentClientIsForgotten) {
  Lab lab;
  const auto opened = lab.open(kPlainRequest);
  while (lab.sessions.deadline()) {
    lab.now = *lab.sessions.deadline();
    ASSERT_EQ(lab.sessions.due(lab.now).size(), 1u);
    (void)lab.sessions.tick(*opened.session, lab.now);
  }
  EXPECT_EQ(lab.sessions.size(), 0u);
  EXPECT_EQ(lab.count(BootEventKind::FileFailed), 1);
  EXPECT_THAT(lab.events.back().text, HasSubstr("answers no more"));
  EXPECT_EQ(lab.sessions.counts().failed, 1u);
}

TEST(TftpSessions, HangingUpInTheMiddleIsAFailure) {
  Lab lab;
  const auto opened = lab.open(kPlainRequest);
  (void)lab.sessions.feed(*opened.session, Writer().u16(4).u16(1).take(), lab.now);
  (void)lab.sessions.feed(*opened.session, error_packet(ErrorNumber::NotDefined, "disk full"), lab.now);
  EXPECT_EQ(lab.count(BootEventKind::FileFailed), 1);
  EXPECT_THAT(lab.events.back().text, HasSubstr("disk full"));
}

} // namespace
} // namespace ductl::netboot::tftp
