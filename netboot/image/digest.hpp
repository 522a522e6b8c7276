// SHA-256 in hexadecimal: what names an image and its files.
//
// Not XXH3, which slices have: a slice is checked for decay of memory, but an image is what runs as root on every duck,
// and Debian's package lists and `sha256sum` speak the same digest.
#pragma once

#include <string>
#include <string_view>

namespace ductl::image {

inline constexpr std::size_t kDigestLetters = 64;

[[nodiscard]] std::string sha256(std::string_view bytes);

} // namespace ductl::image
