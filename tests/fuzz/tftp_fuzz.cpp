// Any datagrams to the TFTP server: requests on its port, and packets of a transfer. Whatever a client sends, a transfer ends,
// answers at most a window for each packet, and sends nothing but the file.
#include "netboot/tftp/sessions.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using namespace ductl::netboot; // NOLINT: a program of its own

void check(bool sound) {
  if (!sound) std::abort();
}

const BootFiles& files() {
  static const BootFiles all = [] {
    BootFiles some;
    Bytes bytes(700'000);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
    some.add("f", BootFile::from_bytes(bytes).value());
    some.add("e", BootFile::from_bytes({}).value());
    return some;
  }();
  return all;
}

void check_packets(const std::vector<Bytes>& packets) {
  check(packets.size() <= tftp::kWindowBlocksGranted);
  for (const Bytes& packet : packets) check(packet.size() >= 4 && packet.size() <= 4 + 1468);
}

} // namespace

// Pieces, each behind its length and a command: 0 opens a transfer, 1 lets time pass, the others go to the last transfer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<BootEvent> events;
  tftp::Sessions sessions(files(), events, [](Ipv4) { return std::string("duck"); });
  ductl::Instant now(std::chrono::hours(1));
  std::optional<tftp::Sessions::Id> last;
  Reader in(std::as_bytes(std::span(data, size)));
  for (std::uint16_t port = 1; !in.rest().empty(); ++port) {
    const std::uint8_t command = in.u8();
    const std::size_t length = std::min<std::size_t>(in.u8(), in.rest().size());
    const ByteView piece = in.take(length);
    if (command % 8 == 0) {
      const auto opened = sessions.open({0, command, port}, piece, 1468, now);
      check_packets(opened.packets);
      if (opened.session) last = opened.session;
    } else if (command % 8 == 1) {
      if (const auto deadline = sessions.deadline()) now = *deadline;
      for (const auto id : sessions.due(now)) check_packets(sessions.tick(id, now));
    } else if (last) {
      check_packets(sessions.feed(*last, piece, now));
    }
  }
  for (int i = 0; sessions.deadline(); ++i) { // left alone, all of them end
    check(i < static_cast<int>(tftp::kSessionsMax) * (tftp::kSendsMax + 2));
    now = *sessions.deadline();
    for (const auto id : sessions.due(now)) check_packets(sessions.tick(id, now));
  }
  check(sessions.size() == 0);
  for (const BootEvent& event : events)
    for (const unsigned char c : event.text) check(c >= ' ' && c < 0x7f);
  return 0;
}
