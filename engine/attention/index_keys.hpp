// The form in which the indexer's keys are cached (DeepSeek-V3.2 report, 2.1; docs/models.md): float as computed, or e4m3 codes
// with one power-of-two scale a key (inventory::IndexKeys), after a Hadamard rotation that evens out the key's dimensions. Pure.
#pragma once

#include <cstdint>
#include <span>

namespace ductl::engine {

// x = H x / sqrt(n), H the Sylvester-Hadamard matrix. n = x.size(), a power of two. Its own inverse up to rounding.
void hadamard(std::span<float> x);

// code[i] * scale is the nearest e4m3 value of x[i] under the smallest power of two that keeps all of them in range (a floor
// of 1e-4 for the largest magnitude). Returns the scale.
float quantise_e4m3(std::span<const float> x, std::span<std::uint8_t> code);

} // namespace ductl::engine
