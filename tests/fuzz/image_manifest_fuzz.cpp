// manifest.json: whatever the bytes, either an error or a manifest that is the same after being written and read again.
#include "netboot/image/manifest.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto manifest = ductl::image::parse_manifest(text, "fuzz");
  if (!manifest) return 0;
  const auto again = ductl::image::parse_manifest(ductl::image::manifest_text(*manifest), "fuzz");
  if (!again || *again != *manifest) std::abort();
  return 0;
}
