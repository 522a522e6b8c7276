// The manifest as a file: docs/slices.md, "Manifest file". Binary, little-endian, sealed by its own XXH3-64.
#include "weights/manifest.hpp"
#include "weights/stored_format.hpp"
#include "weights/whole_file.hpp"

#include <cstring>
#include <fmt/format.h>
#include <xxhash.h>

namespace ductl::weights {

namespace {

constexpr std::string_view kMagic = "ductlman";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kNameMax = 256;

class Writer {
public:
  template <class T> void number(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
  }
  void raw(std::string_view value) { bytes_.append(value); }
  std::string seal() && {
    number(static_cast<std::uint64_t>(XXH3_64bits(bytes_.data(), bytes_.size())));
    return std::move(bytes_);
  }

private:
  std::string bytes_;
};

// Reads in order; after the first thing that does not fit everything is zero and ok() false.
class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T> T number() {
    T value{};
    if (take(sizeof value)) std::memcpy(&value, taken_.data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<std::uint32_t>();
    if (size > kNameMax) ok_ = false;
    return take(size) ? std::string(taken_) : std::string();
  }
  // A count of things that take at least `each` bytes: never more than what is left, so nothing huge is allocated.
  std::size_t count(std::size_t each) {
    const auto value = number<std::uint32_t>();
    if (value * each > bytes_.size()) ok_ = false;
    return ok_ ? value : 0;
  }
  [[nodiscard]] bool finished() const { return ok_ && bytes_.empty(); }

private:
  bool take(std::size_t size) {
    if (!ok_ || size > bytes_.size()) return ok_ = false;
    taken_ = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }
  std::string_view bytes_, taken_;
  bool ok_ = true;
};

LayerManifest read_layer(Reader& reader) {
  LayerManifest layer;
  layer.layer = reader.number<std::int32_t>();
  const std::size_t blocks = reader.count(sizeof(std::int16_t));
  for (std::size_t i = 0; i < blocks; ++i) layer.exponent.push_back(reader.number<std::int16_t>());
  const std::size_t experts = reader.count(sizeof(std::uint32_t));
  for (std::size_t e = 0; e < experts; ++e) {
    const std::size_t slices = reader.count(sizeof(SliceDigest));
    auto& digest = layer.digest.emplace_back();
    digest.reserve(slices);
    for (std::size_t i = 0; i < slices; ++i) digest.push_back(reader.number<SliceDigest>());
  }
  return layer;
}

tl::unexpected<Error> damaged(const std::filesystem::path& file, std::string_view what) {
  return fail(ErrorCode::kState, fmt::format("not a sound manifest: {}", what), file.string(),
              "delete the file; it will be made again");
}

} // namespace

Expected<void> save_manifest(const Manifest& manifest, const std::filesystem::path& file) {
  Writer writer;
  writer.raw(kMagic);
  writer.number(kVersion);
  writer.text(manifest.model_id);
  writer.text(format_name(manifest.format));
  writer.number(static_cast<std::uint32_t>(manifest.hidden));
  writer.number(static_cast<std::uint32_t>(manifest.layers.size()));
  for (const LayerManifest& layer : manifest.layers) {
    writer.number(static_cast<std::int32_t>(layer.layer));
    writer.number(static_cast<std::uint32_t>(layer.exponent.size()));
    for (const std::int16_t exponent : layer.exponent) writer.number(exponent);
    writer.number(static_cast<std::uint32_t>(layer.digest.size()));
    for (const auto& digests : layer.digest) {
      writer.number(static_cast<std::uint32_t>(digests.size()));
      for (const SliceDigest digest : digests) writer.number(digest);
    }
  }
  return replace_whole_file(file, std::move(writer).seal());
}

Expected<Manifest> load_manifest(const std::filesystem::path& file) {
  const auto contents = read_whole_file(file);
  if (!contents) return tl::unexpected<Error>(contents.error());
  std::string_view bytes = *contents;
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + sizeof(std::uint64_t))
    return damaged(file, "its first bytes are not those of one");
  std::uint64_t seal;
  bytes.remove_suffix(sizeof seal);
  std::memcpy(&seal, bytes.data() + bytes.size(), sizeof seal);
  if (seal != XXH3_64bits(bytes.data(), bytes.size())) return damaged(file, "its checksum is wrong");
  Reader reader(bytes.substr(kMagic.size()));
  if (reader.number<std::uint32_t>() != kVersion) return damaged(file, "it is of another version");
  Manifest manifest;
  manifest.model_id = reader.text();
  const auto format = format_named(reader.text());
  manifest.hidden = static_cast<int>(reader.number<std::uint32_t>());
  const std::size_t layers = reader.count(3 * sizeof(std::uint32_t));
  for (std::size_t i = 0; i < layers; ++i) manifest.layers.push_back(read_layer(reader));
  if (!reader.finished() || manifest.hidden <= 0 || manifest.hidden % 32 != 0)
    return damaged(file, "its counts do not fit its size");
  if (!format) return damaged(file, "its format is not known here");
  manifest.format = *format;
  manifest.layout = slice_layout(manifest.hidden, *format);
  return manifest;
}

} // namespace ductl::weights
