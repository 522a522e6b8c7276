// What a packed model is, without its bytes: the fixed-point exponents of every layer and the digest of every slice.
//
// Made by packing once; the same for every flock. `ductl up` keeps it as a file so that a second `up` need not pack
// again, agents get their layer exponents from it, and the engine turns the summed integers back into floats with it.
// Format of the file: docs/slices.md.
#pragma once

#include "weights/checkpoint.hpp"
#include "weights/slice.hpp"

#include <filesystem>
#include <functional>

namespace ductl::weights {

using SliceDigest = std::uint64_t; // XXH3-64 of the stored slice

struct LayerManifest {
  int layer = 0;
  // Fixed point: y[row] is carried as round(y * 2^exponent[row / 128]) in int32, see docs/slices.md. One per 128 rows.
  std::vector<std::int16_t> exponent;
  std::vector<std::vector<SliceDigest>> digest; // [expert][slice index]
};

struct Manifest {
  std::string model_id;                    // hex; checkpoint identity + format + packer version
  TileFormat format = TileFormat::NineBit; // as layout has it
  int hidden = 0;
  SliceLayout layout;
  std::vector<LayerManifest> layers;
};

[[nodiscard]] std::string model_id(const Checkpoint& checkpoint, TileFormat format);
// Packs every slice once to find digests and exponents, in a format that choose_format() gives. Progress: called with layers done
// and layers in all. `stop` is asked before each expert, from any thread: once it is true the outcome is kCancelled.
[[nodiscard]] Expected<Manifest> make_manifest(const Checkpoint& checkpoint, TileFormat format, int threads,
                                               const std::function<void(int, int)>& progress = {},
                                               const std::function<bool()>& stop = {});
[[nodiscard]] Expected<Manifest> load_manifest(const std::filesystem::path& file);
[[nodiscard]] Expected<void> save_manifest(const Manifest& manifest, const std::filesystem::path& file); // write, fsync, rename
// Where obtain_manifest() keeps it.
[[nodiscard]] inline std::filesystem::path manifest_file(const std::filesystem::path& cache, const std::string& model_id) {
  return cache / "manifests" / (model_id + ".manifest");
}
// The cached one when it belongs to this checkpoint, else made and saved. `cache` = $XDG_CACHE_HOME/ductl.
[[nodiscard]] Expected<Manifest> obtain_manifest(const Checkpoint& checkpoint, TileFormat format,
                                                 const std::filesystem::path& cache, int threads,
                                                 const std::function<void(int, int)>& progress = {},
                                                 const std::function<bool()>& stop = {});

// A layer's digest as one number, for comparing whole layers: XXH3 over (expert, index, digest) of `slices`, sorted.
struct HeldSlice {
  SliceId id;
  SliceDigest digest = 0;
};
[[nodiscard]] SliceDigest combined_digest(std::span<const HeldSlice> sorted_slices);

} // namespace ductl::weights
