// Compression by the `zstd` program: level 19, one thread, so that the same bytes in give the same bytes out.
#pragma once

#include "inventory/error.hpp"

#include <string>
#include <string_view>

namespace ductl::image {

// One frame that names its contents' size, so that the kernel's decompressor takes no larger a window than it needs.
// Fails with kImageFile when the program is not there or does not end well.
[[nodiscard]] Expected<std::string> compress_zstd(std::string_view bytes);

} // namespace ductl::image
