#include "engine/session/host_memory.hpp"

#include <gtest/gtest.h>

namespace ductl::engine {
namespace {

TEST(HostMemory, the_available_line_of_meminfo_is_read_in_bytes) {
  EXPECT_EQ(parse_memory_available("MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   23000000 kB\n"),
            23000000ull * 1024);
  EXPECT_FALSE(parse_memory_available("MemTotal: 1 kB\n"));
  EXPECT_FALSE(parse_memory_available("MemAvailable: much\n"));
  EXPECT_FALSE(parse_memory_available("MemAvailable: 99999999999999999999 kB\n"));
  EXPECT_FALSE(parse_memory_available("MemAvailable:"));
  EXPECT_GT(memory_available_bytes(), 0u);
}

TEST(HostMemory, sessions_are_kept_in_a_quarter_of_what_is_left_up_to_four) {
  EXPECT_EQ(sessions_that_fit(1000, 1000, 10), 1);
  EXPECT_EQ(sessions_that_fit(0, 1000, 10), 1); // cannot tell
  EXPECT_EQ(sessions_that_fit(1079, 1000, 10), 2);
  EXPECT_EQ(sessions_that_fit(1080, 1000, 10), 3);
  EXPECT_EQ(sessions_that_fit(100000, 1000, 10), 4);
  EXPECT_EQ(sessions_that_fit(100000, 1000, 0), 1);
}

} // namespace
} // namespace ductl::engine
