// Numbers for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ductl::view {

[[nodiscard]] std::string bytes_text(std::uint64_t bytes); // "0 B", "1023 B", "1.5 KiB", "6.1 GiB"
[[nodiscard]] std::string
duration_text(std::chrono::nanoseconds span);              // "850 us", "12 ms", "1.9 s", "2m 05s", "3h 07m", "4d 02h"
[[nodiscard]] std::string count_text(std::uint64_t count); // "1,234,567"
[[nodiscard]] std::string plural(std::uint64_t count, std::string_view one, std::string_view many = {}); // "1 duck", "2 ducks"
// "2026-11-29T21:10:09Z", and a local "21:10:09" for progress lines.
[[nodiscard]] std::string timestamp_text(std::chrono::system_clock::time_point when);
[[nodiscard]] std::string clock_text(std::chrono::system_clock::time_point when);

} // namespace ductl::view
