// ISA-L's crc32_iscsi() for the static agent: Debian ships ISA-L as a shared library only. One instruction sums eight
// bytes; every processor with the kernels' AVX2 has it. tests/image compares it with ISA-L's own.
#include <cstdint>
#include <cstring>
#include <nmmintrin.h>

extern "C" unsigned int crc32_iscsi(unsigned char* buffer, int len, unsigned int crc) {
  std::uint64_t wide = crc;
  for (; len >= 8; len -= 8, buffer += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, buffer, sizeof eight);
    wide = _mm_crc32_u64(wide, eight);
  }
  auto sum = static_cast<std::uint32_t>(wide);
  for (; len > 0; --len, ++buffer) sum = _mm_crc32_u8(sum, *buffer);
  return sum;
}
