#include "ductl/view/format.hpp"

#include <array>
#include <ctime>
#include <fmt/format.h>

namespace ductl::view {
namespace {

std::string time_text(std::chrono::system_clock::time_point when, bool local, const char* form) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  if ((local ? localtime_r(&seconds, &parts) : gmtime_r(&seconds, &parts)) == nullptr) return {};
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), form, &parts)};
}

} // namespace

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) value /= 1024, ++unit; // 1023.95 would be shown as 1024.0
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string duration_text(std::chrono::nanoseconds span) {
  using namespace std::chrono;
  if (span < nanoseconds::zero()) span = nanoseconds::zero();
  const double ns = static_cast<double>(span.count());
  if (span < microseconds(1)) return fmt::format("{} ns", span.count());
  if (span < milliseconds(1)) return fmt::format("{} us", span / microseconds(1));
  if (span < milliseconds(10)) return fmt::format("{:.1f} ms", ns / 1e6);
  if (span < seconds(1)) return fmt::format("{} ms", span / milliseconds(1));
  if (span < milliseconds(59950)) return fmt::format("{:.1f} s", ns / 1e9);
  const auto whole = static_cast<long long>(round<seconds>(span).count());
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d {:02}h", whole / 86400, whole % 86400 / 3600);
}

std::string count_text(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count_text(count), one) : fmt::format("{} {}", count_text(count), many);
}

std::string timestamp_text(std::chrono::system_clock::time_point when) { return time_text(when, false, "%Y-%m-%dT%H:%M:%SZ"); }
std::string clock_text(std::chrono::system_clock::time_point when) { return time_text(when, true, "%H:%M:%S"); }

} // namespace ductl::view
