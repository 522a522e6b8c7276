// What the static agent has in place of ISA-L, against ISA-L.
#include <cstdint>
#include <gtest/gtest.h>
#include <isa-l/crc.h>
#include <random>
#include <vector>

extern "C" unsigned int static_crc32_iscsi(unsigned char* buffer, int len, unsigned int crc); // renamed by CMakeLists.txt

namespace {

TEST(StaticAgent, sums_as_isal_does_at_every_length_and_place) {
  std::mt19937 random(1);
  std::vector<unsigned char> bytes(4096);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  for (int length = 0; length < 300; ++length)
    for (int begin = 0; begin < 8; ++begin) {
      const auto start = static_cast<unsigned>(random());
      EXPECT_EQ(static_crc32_iscsi(bytes.data() + begin, length, start), crc32_iscsi(bytes.data() + begin, length, start));
    }
  EXPECT_EQ(static_crc32_iscsi(bytes.data(), 4096, ~0u), crc32_iscsi(bytes.data(), 4096, ~0u));
}

} // namespace
