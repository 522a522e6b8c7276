#include "agent/init/kernel_log.hpp"

#include "netboot/descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <mutex>

namespace ductl::agent::init {
namespace {

constexpr const char* kFile = "/dev/kmsg";
constexpr std::size_t kRecordBytesMax = 8192, kLineBytesMax = 900; // the kernel cuts longer lines
constexpr std::string_view kLevels[] = {"7", "7", "6", "4",
                                        "3", "2", "6"}; // by spdlog's: trace, debug, info, warn, error, critical, off

class KernelSink final : public spdlog::sinks::base_sink<std::mutex> {
public:
  KernelSink() : file_(::open(kFile, O_WRONLY | O_CLOEXEC)) {}

private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), std::min(message.payload.size(), kLineBytesMax));
    const std::string line = fmt::format("<{}>duck-agent: {}\n", kLevels[static_cast<std::size_t>(message.level)], text);
    (void)!::write(file_.get(), line.data(), line.size()); // there is nowhere to say that it failed
  }
  void flush_() override {}
  netboot::Descriptor file_;
};

} // namespace

std::optional<std::string> kernel_log_line(std::string_view record) {
  const std::size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  std::string_view head = record.substr(0, semicolon), text = record.substr(semicolon + 1);
  for (int field = 0; field < 2; ++field) { // priority, number
    const std::size_t comma = head.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    head.remove_prefix(comma + 1);
  }
  std::uint64_t microseconds = 0;
  const auto [end, error] = std::from_chars(head.data(), head.data() + head.size(), microseconds);
  if (error != std::errc{} || end == head.data()) return std::nullopt;
  text = text.substr(0, text.find('\n'));
  return fmt::format("[{:5}.{:06}] {}\n", microseconds / 1'000'000, microseconds % 1'000'000, text);
}

Expected<std::string> kernel_log_tail(std::size_t bytes_max) {
  const netboot::Descriptor file(::open(kFile, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.open())
    return fail(ErrorCode::kState, fmt::format("the kernel's log cannot be read: {}", std::strerror(errno)), kFile);
  std::string out;
  std::array<char, kRecordBytesMax> record{};
  for (;;) {
    const ssize_t got = ::read(file.get(), record.data(), record.size());
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue; // overwritten meanwhile: on with the next
    if (got <= 0) break;
    out += kernel_log_line({record.data(), static_cast<std::size_t>(got)}).value_or("");
    if (out.size() > 2 * bytes_max + kRecordBytesMax) out.erase(0, out.size() - bytes_max - kRecordBytesMax);
  }
  if (out.size() <= bytes_max) return out;
  out.erase(0, out.size() - bytes_max - 1); // one byte more tells whether a line begins there
  const std::size_t end_of_line = out.find('\n');
  return out.substr(end_of_line == std::string::npos ? out.size() : end_of_line + 1);
}

void log_to_kernel() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("kernel", std::make_shared<KernelSink>())); }

} // namespace ductl::agent::init
