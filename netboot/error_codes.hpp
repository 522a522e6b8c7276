// Codes of the boot server's errors, in the block 06xx of inventory/error.hpp.
#pragma once

#include "inventory/error.hpp"

namespace ductl::netboot {

inline constexpr ErrorCode kBootServer = static_cast<ErrorCode>(610); // a socket or a right that it needs cannot be had
inline constexpr ErrorCode kBootFile = static_cast<ErrorCode>(611);   // cannot be read, or kept in memory

} // namespace ductl::netboot
