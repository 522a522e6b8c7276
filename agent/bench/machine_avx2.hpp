// The two loops of machine.hpp that need AVX2 and FMA.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ductl::agent::bench {

[[nodiscard]] std::uint64_t read_stream(const std::byte* data, std::size_t bytes, std::size_t ahead, bool second_level);
// Returns the number of floating-point operations that were done.
[[nodiscard]] double multiply_adds(int steps);

} // namespace ductl::agent::bench
