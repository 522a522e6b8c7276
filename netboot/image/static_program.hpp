// Whether a program can be /init of an image that holds no libraries.
#pragma once

#include "inventory/error.hpp"

#include <string>
#include <string_view>

namespace ductl::image {

// An x86-64 ELF program that asks for no interpreter (ld.so). Fails with kImageInput.
[[nodiscard]] Expected<void> check_static_program(std::string_view file, const std::string& place);

} // namespace ductl::image
