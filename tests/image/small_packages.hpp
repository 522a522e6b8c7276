// Unpacked packages and an agent of a few bytes each, as make-duck-image takes them.
#pragma once

#include "netboot/image/build_image.hpp"

#include <filesystem>
#include <string>

namespace ductl::image::test {

void write(const std::filesystem::path& file, const std::string& contents);

// An ELF header and one program header; with an interpreter, as programs with shared libraries have one.
[[nodiscard]] std::string tiny_elf(bool with_interpreter);

// Fills `folder` with a kernel package (the lists of debian_6_1/, modules named by their contents), a stub, a firmware and
// a loader package and an agent, and returns the inputs that name them all.
[[nodiscard]] ImageInputs small_packages(const std::filesystem::path& folder);

} // namespace ductl::image::test
