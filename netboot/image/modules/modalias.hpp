// Which module drives a device: the kernel names each device by its "modalias", modules name the devices that they know
// by patterns of it (lines of modules.alias). Used on a duck by PID 1 as well, so it needs libc and nothing else.
#pragma once

#include <string>

namespace ductl::image {

// As modprobe compares them: `*`, `?` and `[...]` in the pattern, the whole modalias, letters by case.
[[nodiscard]] bool modalias_matches(const std::string& pattern, const std::string& modalias);

} // namespace ductl::image
