#include "engine/moe/peer_clock.hpp"

#include <gtest/gtest.h>

namespace ductl::engine {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Instant kStart = Instant(std::chrono::hours(1));

TEST(PeerClock, GuessesBeforeItKnowsAnything) {
  PeerClock clock(milliseconds(5000));
  clock.begin(1, 32, kStart);
  EXPECT_EQ(clock.patience(), milliseconds(100));
  EXPECT_EQ(clock.floor(), milliseconds(20));
}

TEST(PeerClock, HalfOfTheFlockTellsHowLongAnAnswerTakes) {
  PeerClock clock(milliseconds(5000));
  clock.begin(1, 4, kStart);
  clock.arrived(kStart + milliseconds(30));
  EXPECT_FALSE(clock.peers_tell());
  clock.arrived(kStart + milliseconds(40));
  EXPECT_TRUE(clock.peers_tell());
  EXPECT_EQ(clock.patience(), milliseconds(80));
  clock.arrived(kStart + milliseconds(400)); // a straggler does not change it
  EXPECT_EQ(clock.patience(), milliseconds(80));
}

TEST(PeerClock, NeverBelowTheFloorNorAboveTheCeiling) {
  PeerClock clock(milliseconds(5000));
  clock.begin(1, 1, kStart);
  clock.arrived(kStart + microseconds(10));
  EXPECT_EQ(clock.patience(), clock.floor());
  clock.begin(1, 1, kStart);
  clock.arrived(kStart + milliseconds(4000));
  EXPECT_EQ(clock.patience(), milliseconds(625));
}

TEST(PeerClock, EarlierRoundsWithAsManyTokensTell) {
  PeerClock clock(milliseconds(50));
  for (int i = 0; i < 100; ++i) {
    clock.begin(64, 2, kStart);
    clock.finished(kStart + microseconds(2000), true);
    clock.begin(1, 2, kStart);
    clock.finished(kStart + microseconds(500), true);
  }
  clock.begin(60, 2, kStart); // another bucket
  EXPECT_EQ(clock.patience(), milliseconds(1));
  clock.begin(64, 2, kStart);
  EXPECT_NEAR(static_cast<double>(clock.patience().count()), 2e6, 1e4);
  clock.begin(1, 2, kStart);
  EXPECT_NEAR(static_cast<double>(clock.patience().count()), 5e5, 1e4);
}

TEST(PeerClock, ARoundThatWasLateByALossTeachesNothing) {
  PeerClock clock(milliseconds(50));
  for (int i = 0; i < 100; ++i) {
    clock.begin(1, 2, kStart);
    clock.finished(kStart + microseconds(500), true);
  }
  clock.begin(1, 2, kStart);
  clock.finished(kStart + milliseconds(40), false);
  clock.begin(1, 2, kStart);
  EXPECT_LT(clock.patience(), microseconds(600));
}

TEST(PeerClock, ADuckIsAskedManyTimesWithinTheTimeLimit) {
  for (const auto dead_after : {milliseconds(50), milliseconds(1000), milliseconds(5000)}) {
    PeerClock clock(dead_after);
    EXPECT_GE(Duration(dead_after) / clock.backoff_max(), 32);
  }
}

} // namespace
} // namespace ductl::engine
