// The header of a safetensors file: whatever the bytes, either an error or tensors that lie inside the file, side by side.
#include "weights/safetensors.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto header = ductl::weights::parse_safetensors_header(std::as_bytes(std::span(data, size)), size, "fuzz");
  if (!header) return 0;
  std::uint64_t bytes = 0;
  for (const auto& tensor : header->tensors) {
    if (tensor.begin < header->data_begin || tensor.begin > tensor.end || tensor.end > size) std::abort();
    bytes += tensor.end - tensor.begin;
  }
  if (header->data_begin + bytes != size) std::abort(); // a hole or an overlap went through
  return 0;
}
