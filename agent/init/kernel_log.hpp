// The kernel's log, which is a duck's only one: init writes its own lines into it, so the console, GET /v1/log and the record
// of a panic all show both in one order.
#pragma once

#include "inventory/error.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace ductl::agent::init {

// "[   12.345678] text\n" of a record of /dev/kmsg ("6,339,12345678,-;text\n KEY=value\n"); nothing when it is none.
[[nodiscard]] std::optional<std::string> kernel_log_line(std::string_view record);

// Whole lines from the end, at most `bytes_max` of them. Reads the ring, without waiting.
[[nodiscard]] Expected<std::string> kernel_log_tail(std::size_t bytes_max);

// From now on spdlog writes there.
void log_to_kernel();

} // namespace ductl::agent::init
