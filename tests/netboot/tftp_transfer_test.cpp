#include "netboot/tftp/transfer.hpp"

#include "tftp_client.hpp"

#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace ductl::netboot::tftp {
namespace {

using namespace std::string_literals;
using namespace std::chrono_literals;
using test::ClientWishes;
using test::TftpClient;

constexpr std::size_t kBlockMax = 1468;

Bytes sample_file(std::size_t size) {
  std::mt19937 random(static_cast<unsigned>(size) + 1);
  Bytes bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Bytes ack(std::uint16_t block) { return Writer().u16(4).u16(block).take(); }

// A network of one direction: loses, doubles and delays. Delays are whole steps, so packets overtake each other.
class LossyWay {
public:
  LossyWay(unsigned seed, int loss_percent, int double_percent, int delay_max)
      : random_(seed), loss_(loss_percent), double_(double_percent), delay_max_(delay_max) {}
  void put(const Bytes& packet) {
    const int copies = chance(loss_) ? 0 : chance(double_) ? 2 : 1;
    for (int i = 0; i < copies; ++i)
      queue_.emplace(now_ + 1 + (delay_max_ > 0 ? static_cast<int>(random_() % static_cast<unsigned>(delay_max_)) : 0), packet);
  }
  std::vector<Bytes> step() {
    ++now_;
    std::vector<Bytes> out;
    while (!queue_.empty() && queue_.begin()->first <= now_) {
      out.push_back(std::move(queue_.begin()->second));
      queue_.erase(queue_.begin());
    }
    return out;
  }

private:
  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  std::mt19937 random_;
  int loss_, double_, delay_max_, now_ = 0;
  std::multimap<int, Bytes> queue_;
};

struct Way {
  int loss = 0, doubled = 0, delay = 0;
};

// Runs a transfer to its end in steps of a millisecond; the client repeats itself after 250 ms of silence. Returns the packets
// that the server sent.
std::size_t run(Transfer& transfer, TftpClient& client, const Way& way, unsigned seed) {
  LossyWay down(seed, way.loss, way.doubled, way.delay), up(seed + 1, way.loss, way.doubled, way.delay);
  Instant now(1h);
  std::size_t sent = 0;
  std::vector<Bytes> out;
  transfer.begin(now, out);
  int silence = 0;
  for (int step = 0; step < 2'000'000 && transfer.state() == TransferState::Running; ++step) {
    for (const Bytes& packet : out) down.put(packet);
    sent += out.size();
    out.clear();
    now += 1ms;
    const auto arrived = down.step();
    silence = arrived.empty() ? silence + 1 : 0;
    for (const Bytes& packet : arrived)
      for (const Bytes& answer : client.feed(packet)) up.put(answer);
    if (silence >= 250) {
      silence = 0;
      for (const Bytes& answer : client.timed_out()) up.put(answer);
    }
    for (const Bytes& packet : up.step()) transfer.feed(packet, now, out);
    if (transfer.state() == TransferState::Running && now >= transfer.deadline()) transfer.tick(now, out);
  }
  return sent;
}

Asked asked(const ClientWishes& w) { return {w.block_bytes, w.window_blocks, std::nullopt, w.size}; }

TEST(TftpTransfer, WithoutOptionsBlocksOf512InLockstep) { // RFC 1350
  const Bytes file = sample_file(1100);
  Transfer transfer(file, {}, kBlockMax);
  std::vector<Bytes> out;
  Instant now(1h);
  transfer.begin(now, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].size(), 516u);
  for (const std::uint16_t block : {std::uint16_t{1}, std::uint16_t{2}}) {
    out.clear();
    transfer.feed(ack(block), now, out);
    ASSERT_EQ(out.size(), 1u);
  }
  EXPECT_EQ(out[0].size(), 4u + 76u);
  out.clear();
  transfer.feed(ack(3), now, out);
  EXPECT_EQ(transfer.state(), TransferState::Sent);
  EXPECT_TRUE(out.empty());
}

TEST(TftpTransfer, ExactMultipleEndsWithAnEmptyBlock) {
  for (const std::size_t size : {0u, 512u, 1024u}) {
    const Bytes file = sample_file(size);
    Transfer transfer(file, {}, kBlockMax);
    TftpClient client({});
    EXPECT_EQ(run(transfer, client, {}, 1), size / 512 + 1);
    EXPECT_EQ(transfer.state(), TransferState::Sent);
    EXPECT_EQ(client.file(), file);
  }
}

TEST(TftpTransfer, OptionsAreGrantedNeverLargerThanAsked) {
  const Bytes file = sample_file(10'000);
  Transfer transfer(file, {.block_bytes = 8000, .window_blocks = 200, .timeout_s = 3, .size = true}, kBlockMax);
  std::vector<Bytes> out;
  transfer.begin(Instant(1h), out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(text_of(out[0]), "\0\6tsize\00010000\0blksize\0001468\0windowsize\00032\0timeout\0003\0"s);
  Transfer small(file, {.block_bytes = 600, .window_blocks = 2, .timeout_s = {}, .size = false}, kBlockMax);
  out.clear();
  small.begin(Instant(1h), out);
  EXPECT_EQ(text_of(out[0]), "\0\6blksize\000600\0windowsize\0002\0"s); // only what was asked for
}

TEST(TftpTransfer, OnlyBlockZeroBeginsTheData) {
  const Bytes file = sample_file(10'000);
  Transfer transfer(file, {.block_bytes = 600, .window_blocks = {}, .timeout_s = {}, .size = false}, kBlockMax);
  std::vector<Bytes> out;
  Instant now(1h);
  transfer.begin(now, out);
  out.clear();
  transfer.feed(ack(1), now, out);
  EXPECT_TRUE(out.empty());
  transfer.feed(ack(0), now, out);
  EXPECT_EQ(out.size(), 1u);
}

TEST(TftpTransfer, RepeatsWithGrowingPausesAndGivesUp) {
  const Bytes file = sample_file(100);
  Transfer transfer(file, {}, kBlockMax);
  std::vector<Bytes> out;
  const Instant begin(1h);
  Instant now = begin;
  transfer.begin(now, out);
  std::vector<std::chrono::milliseconds> pauses;
  while (transfer.state() == TransferState::Running) {
    pauses.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(transfer.deadline() - now));
    transfer.tick(transfer.deadline() - 1ms, out); // too early: nothing
    now = transfer.deadline();
    transfer.tick(now, out);
  }
  EXPECT_EQ(pauses, (std::vector<std::chrono::milliseconds>{400ms, 800ms, 1600ms, 3200ms, 4000ms, 4000ms, 4000ms}));
  EXPECT_EQ(out.size(), static_cast<std::size_t>(kSendsMax));
  EXPECT_EQ(transfer.state(), TransferState::Silent);
  EXPECT_LE(now - begin, 20s);
}

TEST(TftpTransfer, KeepsTheTimeoutThatWasAskedFor) {
  const Bytes file = sample_file(100);
  Transfer transfer(file, {.block_bytes = {}, .window_blocks = {}, .timeout_s = 2, .size = false}, kBlockMax);
  std::vector<Bytes> out;
  transfer.begin(Instant(1h), out);
  EXPECT_EQ(transfer.deadline() - Instant(1h), 2s);
  transfer.tick(transfer.deadline(), out);
  EXPECT_EQ(transfer.deadline() - Instant(1h), 4s);
}

TEST(TftpTransfer, DoubledPacketsDoNotDoubleTheTransfer) { // RFC 1123 section 4.2.3.1
  const Bytes file = sample_file(200'000);
  const std::size_t packets = file.size() / 512 + 2; // with the OACK
  Transfer lockstep(file, {.block_bytes = 512, .window_blocks = {}, .timeout_s = {}, .size = false}, kBlockMax);
  TftpClient client({512, {}, false});
  EXPECT_EQ(run(lockstep, client, {.loss = 0, .doubled = 100, .delay = 0}, 5), packets);
  EXPECT_EQ(client.file(), file);
  // A client that sees an old block in the middle of a window says where it is, and that begins the window anew.
  Transfer windows(file, {.block_bytes = 512, .window_blocks = 4, .timeout_s = {}, .size = false}, kBlockMax);
  TftpClient other({512, 4, false});
  EXPECT_LE(run(windows, other, {.loss = 0, .doubled = 3, .delay = 0}, 5), packets * 130 / 100);
  EXPECT_EQ(other.file(), file);
}

TEST(TftpTransfer, AnAckInsideOfTheWindowStartsItAnewBehindIt) { // RFC 7440 section 4
  const Bytes file = sample_file(20 * 512);
  Transfer transfer(file, {.block_bytes = {}, .window_blocks = 4, .timeout_s = {}, .size = false}, kBlockMax);
  std::vector<Bytes> out;
  Instant now(1h);
  transfer.begin(now, out);
  out.clear();
  transfer.feed(ack(0), now, out);
  ASSERT_EQ(out.size(), 4u);
  out.clear();
  transfer.feed(ack(2), now + 1ms, out); // 3 was lost
  transfer.feed(ack(2), now + 1ms, out); // and said again for 4
  ASSERT_EQ(out.size(), 2u);             // the window has moved on to 6
  EXPECT_EQ(out[0], data_packet(5, ByteView(file).subspan(2048, 512)));
  out.clear();
  EXPECT_EQ(transfer.deadline(), now + 1ms + kHurryMin); // far sooner than by the timeout
  transfer.tick(transfer.deadline(), out);
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(out[0], data_packet(3, ByteView(file).subspan(1024, 512)));
  EXPECT_EQ(out[3], data_packet(6, ByteView(file).subspan(2560, 512)));
  out.clear();
  now = transfer.deadline();
  transfer.feed(ack(2), now, out); // once: from here on the timeout counts
  EXPECT_EQ(transfer.deadline(), now);
  transfer.feed(ack(7), now, out); // never sent
  EXPECT_TRUE(out.empty());
  transfer.feed(ack(6), now, out);
  ASSERT_EQ(out.size(), 4u);
}

TEST(TftpTransfer, AWindowWhoseRestArrivesIsNotRepeated) {
  const Bytes file = sample_file(20 * 512);
  Transfer transfer(file, {.block_bytes = {}, .window_blocks = 4, .timeout_s = {}, .size = false}, kBlockMax);
  std::vector<Bytes> out;
  Instant now(1h);
  transfer.begin(now, out);
  transfer.feed(ack(0), now, out);
  out.clear();
  transfer.feed(ack(2), now, out); // it saw block 2 twice
  transfer.feed(ack(4), now + 1ms, out);
  ASSERT_EQ(out.size(), 4u);
  for (std::uint16_t i = 0; i < 4; ++i)
    EXPECT_EQ(out[i], data_packet(static_cast<std::uint16_t>(5 + i), ByteView(file).subspan(2048 + i * 512u, 512)));
}

TEST(TftpTransfer, AWindowSavesRoundTrips) {
  const Bytes file = sample_file(64 * 1468);
  Instant now(1h);
  for (const auto& [window, acks] : {std::pair{1u, 66}, {4u, 18}, {32u, 4}}) {
    Transfer transfer(file, {.block_bytes = 1468, .window_blocks = window, .timeout_s = {}, .size = false}, kBlockMax);
    TftpClient client({1468, window, false});
    std::vector<Bytes> out;
    transfer.begin(now, out);
    int heard = 0;
    while (transfer.state() == TransferState::Running) {
      std::vector<Bytes> answers;
      for (const Bytes& packet : out)
        for (Bytes& answer : client.feed(packet)) answers.push_back(std::move(answer));
      out.clear();
      ASSERT_FALSE(answers.empty());
      for (const Bytes& answer : answers) transfer.feed(answer, now, out), ++heard;
    }
    EXPECT_EQ(heard, acks) << window;
  }
}

struct Shape {
  std::size_t size;
  std::optional<std::uint32_t> block_bytes, window_blocks;
};

TEST(TftpTransfer, ArrivesWholeThroughLossAndDoublesAndReordering) {
  std::mt19937 random(11);
  const Way ways[] = {{0, 0, 0}, {2, 0, 0}, {10, 10, 0}, {25, 25, 0}, {2, 2, 20}, {15, 30, 9}};
  int runs = 0;
  for (unsigned seed = 0; seed < 240; ++seed) {
    Shape shape{random() % 40'000, {}, {}};
    if (random() % 4 != 0) shape.block_bytes = 8 + random() % 1600;
    if (random() % 3 != 0) shape.window_blocks = 1 + random() % 40;
    if (shape.block_bytes && *shape.block_bytes < 64) shape.size %= 3000;
    const Bytes file = sample_file(shape.size);
    const ClientWishes wishes{shape.block_bytes, shape.window_blocks, random() % 2 == 0};
    Transfer transfer(file, asked(wishes), kBlockMax);
    TftpClient client(wishes);
    const Way& way = ways[seed % std::size(ways)];
    run(transfer, client, way, seed);
    // With a quarter lost, a client may end while its last ACK never arrives: then the server has given up, and that is all.
    if (way.loss < 20) { ASSERT_EQ(transfer.state(), TransferState::Sent) << seed; }
    if (transfer.state() != TransferState::Sent && !client.done()) continue;
    ASSERT_TRUE(client.done()) << seed;
    ASSERT_EQ(client.file(), file) << "seed " << seed << " size " << shape.size;
    ++runs;
  }
  EXPECT_GE(runs, 235);
}

TEST(TftpTransfer, WindowsSurviveTwoPercentLossWithFewRepeats) { // edk2#7264
  const Bytes file = sample_file(4 << 20);
  Transfer transfer(file, {.block_bytes = 1468, .window_blocks = 4, .timeout_s = {}, .size = false}, kBlockMax);
  TftpClient client({1468, 4, false});
  const std::size_t blocks = file.size() / 1468 + 1, sent = run(transfer, client, {.loss = 2, .doubled = 0, .delay = 0}, 3);
  EXPECT_EQ(client.file(), file);
  EXPECT_LE(sent, blocks * 115 / 100);
}

TEST(TftpTransfer, StrangePacketsChangeNothing) {
  std::mt19937 random(5);
  const Bytes file = sample_file(50'000);
  Transfer transfer(file, {.block_bytes = 1000, .window_blocks = 8, .timeout_s = {}, .size = false}, kBlockMax);
  TftpClient client({1000, 8, false});
  std::vector<Bytes> out;
  Instant now(1h);
  transfer.begin(now, out);
  std::deque<Bytes> to_client(out.begin(), out.end());
  while (!to_client.empty()) {
    const auto answers = client.feed(to_client.front());
    to_client.pop_front();
    out.clear();
    for (const Bytes& answer : answers) transfer.feed(answer, now, out);
    const std::size_t honest = out.size();
    for (int i = 0; i < 3; ++i) { // never ERROR, which does end it, and never an ACK, which is the client's to give
      Bytes junk(random() % 40);
      for (auto& b : junk) b = static_cast<std::byte>(random());
      if (junk.size() > 1 && junk[0] == std::byte{0} && (junk[1] == std::byte{4} || junk[1] == std::byte{5})) continue;
      transfer.feed(junk, now, out);
    }
    ASSERT_EQ(out.size(), honest);
    to_client.insert(to_client.end(), out.begin(), out.end());
  }
  EXPECT_EQ(transfer.state(), TransferState::Sent);
  EXPECT_EQ(client.file(), file);
}

} // namespace
} // namespace ductl::netboot::tftp
