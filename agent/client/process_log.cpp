#include "agent/client/process_log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>

namespace ductl::agent {

namespace {

constexpr std::size_t kFileBytes = 4u << 20, kOlderFiles = 4; // five with the current one

} // namespace

Expected<void> start_log(const std::filesystem::path& file) {
  try {
    const std::string name = "process:" + file.string();
    if (auto open = spdlog::get(name)) { // asked for twice
      spdlog::set_default_logger(std::move(open));
      return {};
    }
    auto logger = spdlog::rotating_logger_mt(name, file.string(), kFileBytes, kOlderFiles);
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    logger->flush_on(spdlog::level::info); // few lines; the last ones matter most
    spdlog::set_default_logger(std::move(logger));
    return {};
  } catch (const spdlog::spdlog_ex& exception) {
    return fail(ErrorCode::kState, fmt::format("the log cannot be opened: {}", exception.what()), file,
                "check that its folder is there and writable for you");
  }
}

} // namespace ductl::agent
