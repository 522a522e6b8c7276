#include "weights/safetensors.hpp"

#include "weights/json_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ductl::weights {
namespace {

using Json = nlohmann::json;
constexpr const char* kFetchAgain = "the file is damaged or only partly downloaded: fetch it again";

struct TypeRow {
  const char* name;
  std::uint64_t bytes;
  DType type;
};
// Every type of the format with whole bytes. Those that no supported model uses are sized but never handed out as weights.
constexpr TypeRow kTypes[] = {
    {"F32", 4, DType::F32},       {"F16", 2, DType::F16},    {"BF16", 2, DType::Bf16}, {"F8_E4M3", 1, DType::F8E4M3},
    {"U8", 1, DType::U8},         {"I64", 8, DType::I64},    {"F64", 8, DType::Other}, {"F8_E5M2", 1, DType::Other},
    {"F8_E8M0", 1, DType::Other}, {"BOOL", 1, DType::Other}, {"I8", 1, DType::Other},  {"I16", 2, DType::Other},
    {"I32", 4, DType::Other},     {"U16", 2, DType::Other},  {"U32", 4, DType::Other}, {"U64", 8, DType::Other},
};

tl::unexpected<Error> bad(const std::string& place, std::string message, std::string next = kFetchAgain) {
  return fail(ErrorCode::kCheckpointFile, std::move(message), place, std::move(next));
}
tl::unexpected<Error> bad_tensor(const std::string& place, const std::string& name, const std::string& why) {
  return bad(place, fmt::format("tensor \"{}\": {}", name, why));
}

// An unsigned JSON integer, nothing else (no float, no minus sign).
bool read_u64(const Json& value, std::uint64_t& out) {
  if (!value.is_number_unsigned()) return false;
  out = value.get<std::uint64_t>();
  return true;
}

Expected<std::uint64_t> read_shape(const Json& shape, TensorEntry& entry, std::uint64_t type_bytes, const std::string& place) {
  if (!shape.is_array() || shape.size() > 8) return bad_tensor(place, entry.name, "its shape is not a list of up to 8 sizes");
  std::uint64_t bytes = type_bytes;
  for (const Json& size : shape) {
    std::uint64_t value = 0;
    if (!read_u64(size, value) || value > static_cast<std::uint64_t>(INT64_MAX)) {
      return bad_tensor(place, entry.name, fmt::format("shape {} holds something that is not a size", shape.dump()));
    }
    if (__builtin_mul_overflow(bytes, value, &bytes)) {
      return bad_tensor(place, entry.name, fmt::format("shape {} is larger than 64 bits can count", shape.dump()));
    }
    entry.shape.push_back(static_cast<std::int64_t>(value));
  }
  return bytes;
}

Expected<TensorEntry> read_entry(const std::string& name, const Json& value, std::uint64_t buffer_bytes,
                                 const std::string& place) {
  TensorEntry entry;
  entry.name = name;
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets")) {
    return bad_tensor(place, name, "its entry lacks dtype, shape or data_offsets");
  }
  if (!value["dtype"].is_string()) return bad_tensor(place, name, "its dtype is not a string");
  entry.type_name = value["dtype"].get<std::string>();
  const auto* row =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& t) { return entry.type_name == t.name; });
  if (row == std::end(kTypes)) return bad_tensor(place, name, fmt::format("dtype \"{}\" is not known", entry.type_name));
  entry.type = row->type;
  const auto bytes = read_shape(value["shape"], entry, row->bytes, place);
  if (!bytes) return tl::unexpected(bytes.error());

  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !read_u64(offsets[0], entry.begin) || !read_u64(offsets[1], entry.end)) {
    return bad_tensor(place, name, "its data_offsets are not two offsets");
  }
  if (entry.begin > entry.end || entry.end > buffer_bytes) {
    return bad_tensor(
        place, name,
        fmt::format("its bytes {}..{} lie outside the file's {} bytes of data", entry.begin, entry.end, buffer_bytes));
  }
  if (entry.end - entry.begin != *bytes) {
    return bad_tensor(place, name,
                      fmt::format("{} {} takes {} bytes, but its offsets hold {}", entry.type_name, value["shape"].dump(), *bytes,
                                  entry.end - entry.begin));
  }
  return entry;
}

// Offsets sorted by place must join without gap or overlap, from the buffer's first byte to its last.
Expected<void> check_coverage(std::vector<const TensorEntry*> entries, std::uint64_t buffer_bytes, const std::string& place) {
  std::sort(entries.begin(), entries.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::tie(a->begin, a->end, a->name) < std::tie(b->begin, b->end, b->name);
  });
  std::uint64_t at = 0;
  for (const TensorEntry* entry : entries) {
    if (entry->begin < at) return bad_tensor(place, entry->name, "its bytes overlap another tensor's");
    if (entry->begin > at)
      return bad_tensor(place, entry->name, fmt::format("{} bytes before it belong to no tensor", entry->begin - at));
    at = entry->end;
  }
  if (at < buffer_bytes) return bad(place, fmt::format("the last {} bytes belong to no tensor", buffer_bytes - at));
  return {};
}

} // namespace

Expected<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_bytes,
                                                     const std::string& place) {
  if (file_bytes < 8 || head.size() < 8) return bad(place, fmt::format("only {} bytes long, no safetensors file", file_bytes));
  std::uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i)
    header_bytes = header_bytes << 8 | std::to_integer<std::uint64_t>(head[static_cast<std::size_t>(i)]);
  if (header_bytes > kHeaderBytesMax) {
    return bad(place, fmt::format("says that its header has {} bytes; no safetensors file has more than {}", header_bytes,
                                  kHeaderBytesMax));
  }
  if (header_bytes + 8 > file_bytes) {
    return bad(place, fmt::format("truncated: its header ends at byte {}, the file at byte {}", header_bytes + 8, file_bytes));
  }
  if (head.size() < header_bytes + 8) return bad(place, "truncated inside its header");
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + 8, header_bytes);
  if (text.empty() || text.front() != '{') return bad(place, "no safetensors file: its header does not start with {");

  const auto json = parse_json_object(text, 8, ErrorCode::kCheckpointFile, place);
  if (!json) return bad(place, fmt::format("header {}", json.error().message));
  SafetensorsHeader header;
  header.data_begin = header_bytes + 8;
  const std::uint64_t buffer_bytes = file_bytes - header.data_begin;
  header.tensors.reserve(json->size());
  for (const auto& [name, value] : json->items()) { // nlohmann's map: sorted by name
    if (name == "__metadata__") {
      if (!value.is_object()) return bad(place, "header __metadata__ is not an object");
      continue;
    }
    auto entry = read_entry(name, value, buffer_bytes, place);
    if (!entry) return tl::unexpected(entry.error());
    header.tensors.push_back(std::move(*entry));
  }
  std::vector<const TensorEntry*> entries;
  for (const TensorEntry& entry : header.tensors) entries.push_back(&entry);
  if (auto covered = check_coverage(std::move(entries), buffer_bytes, place); !covered) return tl::unexpected(covered.error());
  for (TensorEntry& entry : header.tensors) {
    entry.begin += header.data_begin;
    entry.end += header.data_begin;
  }
  return header;
}

Expected<std::unique_ptr<SafetensorsFile>> SafetensorsFile::open(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return bad(file.string(), fmt::format("cannot be opened: {}", std::strerror(errno)),
               "fetch the missing file, or correct the model's path");
  }
  struct stat info {};
  std::unique_ptr<SafetensorsFile> result(new SafetensorsFile);
  result->path_ = file;
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  void* mapped = MAP_FAILED;
  if (regular && info.st_size >= 8)
    mapped = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
  const int map_error = errno;
  ::close(fd);
  if (!regular) return bad(file.string(), "not a regular file", "give the folder of a checkpoint");
  if (info.st_size < 8) return bad(file.string(), fmt::format("only {} bytes long, no safetensors file", info.st_size));
  if (mapped == MAP_FAILED) return bad(file.string(), fmt::format("cannot be mapped: {}", std::strerror(map_error)), "");
  result->data_ = static_cast<const std::byte*>(mapped);
  result->size_ = static_cast<std::size_t>(info.st_size);
  result->modified_ns_ = static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  auto header = parse_safetensors_header(result->bytes(), result->size_, file.string());
  if (!header) return tl::unexpected(header.error());
  result->header_ = std::move(*header);
  return result;
}

SafetensorsFile::~SafetensorsFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

TensorView SafetensorsFile::view(const TensorEntry& entry) const {
  return {entry.name, entry.type, entry.shape, bytes().subspan(entry.begin, entry.end - entry.begin)};
}

} // namespace ductl::weights
