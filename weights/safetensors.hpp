// safetensors files: the header, checked whole, and the mapping. Format: docs/models.md.
//
// parse_safetensors_header() is pure (and fuzzed); SafetensorsFile maps a file and keeps the checked header. Everything
// that the format promises is checked before a single tensor is handed out: header length, JSON, element types, shape x
// type without overflow, no tensor outside the buffer, no overlap, no hole, no name twice.
#pragma once

#include "inventory/error.hpp"
#include "weights/tensor.hpp"

#include <filesystem>
#include <memory>

namespace ductl::weights {

inline constexpr std::uint64_t kHeaderBytesMax = 100'000'000; // as the reference implementation

struct TensorEntry {
  std::string name;
  DType type = DType::Other;
  std::string type_name; // as written, "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0; // offsets in the file
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors; // sorted by name
  std::uint64_t data_begin = 0;     // offset of the buffer in the file
};

// `head` is the file from its first byte, at least up to the header's end where that exists; `file_bytes` its whole size.
[[nodiscard]] Expected<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_bytes,
                                                                   const std::string& place);

// A file mapped read-only. Views into it are valid as long as it lives.
class SafetensorsFile {
public:
  [[nodiscard]] static Expected<std::unique_ptr<SafetensorsFile>> open(const std::filesystem::path& file);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] std::int64_t modified_ns() const { return modified_ns_; }
  [[nodiscard]] TensorView view(const TensorEntry& entry) const;

private:
  SafetensorsFile() = default;
  std::filesystem::path path_;
  SafetensorsHeader header_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t modified_ns_ = 0;
};

} // namespace ductl::weights
