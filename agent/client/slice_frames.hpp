// The body of PUT /v1/slices: slices one behind another, each with its name and digest (docs/control.md). Pure.
#pragma once

#include "agent/client/control_client.hpp"

#include <string>
#include <vector>

namespace ductl::agent {

inline constexpr std::size_t kSliceBodyBytesMax = 64u << 20;
inline constexpr std::size_t kSlicesPerBodyMax = 65536;

[[nodiscard]] std::string slice_frames(std::span<const OutgoingSlice> slices);
// The slices of a body, as views into it; every slice of exactly `slice_bytes`. The whole body is checked first: either all
// of its frames are sound, or an error says which one is not.
[[nodiscard]] Expected<std::vector<OutgoingSlice>> parse_slice_frames(std::span<const std::byte> body, std::size_t slice_bytes);

} // namespace ductl::agent
