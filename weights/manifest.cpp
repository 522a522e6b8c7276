#include "weights/manifest.hpp"

#include "weights/fixed_point.hpp"
#include "weights/pack.hpp"
#include "weights/stored_format.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <thread>
#include <xxhash.h>

namespace ductl::weights {

namespace {

// Of everything that decides a slice's bytes or a layer's exponents. Raise it when the packer's output changes: cached
// manifests and filled ducks are then made anew.
constexpr int kPackerVersion = 2;

struct Unit { // one expert: what a thread takes at a time
  int layer = 0, expert = 0;
};

struct PackedExpert {
  std::vector<SliceDigest> digest;
  ExpertNorms norms;
};

Expected<PackedExpert> pack_expert(const Checkpoint& checkpoint, TileFormat format, Unit unit, std::span<std::byte> buffer) {
  const auto weights = expert_weights(checkpoint, unit.layer, unit.expert);
  if (!weights) return tl::unexpected<Error>(weights.error());
  const auto prepared = prepare_expert(*weights, format);
  if (!prepared) return tl::unexpected<Error>(prepared.error());
  PackedExpert packed;
  SliceNorms norms;
  const int slices = expert_slices(checkpoint.config(), unit.layer, unit.expert);
  for (int index = 0; index < slices; ++index) {
    if (auto ok = pack_slice(*prepared, index, buffer); !ok) return tl::unexpected<Error>(ok.error());
    packed.digest.push_back(XXH3_64bits(buffer.data(), buffer.size()));
    slice_norms(buffer.data(), checkpoint.config().hidden, norms, format);
    packed.norms.add(norms);
  }
  return packed;
}

struct FreeAligned {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{kSliceAlignment}); }
};

// All experts of the model through a pool of threads. Each holds one slice; results land in their own places, so the
// outcome does not depend on the threads.
class PackRun {
public:
  PackRun(const Checkpoint& checkpoint, TileFormat format, const std::function<void(int, int)>& progress,
          const std::function<bool()>& stop)
      : checkpoint_(checkpoint), format_(format), progress_(progress), stop_(stop) {
    const ModelConfig& config = checkpoint.config();
    for (int layer = 0; layer < decoder_layers(config); ++layer) {
      const int experts = expert_count(config, layer);
      packed_.emplace_back(static_cast<std::size_t>(experts));
      left_.push_back(experts);
      for (int expert = 0; expert < experts; ++expert) units_.push_back({layer, expert});
    }
  }

  Expected<void> run(int threads) {
    const auto count = std::clamp<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), 1, units_.size());
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < count; ++i) others.emplace_back([this] { work(); });
    work();
    others.clear();
    if (error_) return tl::unexpected<Error>(*error_);
    return {};
  }

  [[nodiscard]] std::vector<PackedExpert>& layer(int number) { return packed_[static_cast<std::size_t>(number)]; }

private:
  void work() {
    const std::size_t bytes = slice_layout(checkpoint_.config().hidden, format_).bytes;
    const std::unique_ptr<std::byte, FreeAligned> buffer(
        static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kSliceAlignment})));
    for (std::size_t i = next_++; i < units_.size() && !failed_; i = next_++) {
      const bool stopped = stop_ && stop_();
      auto packed = stopped ? fail(ErrorCode::kCancelled, "interrupted", {}, "the same command begins the packing anew")
                            : pack_expert(checkpoint_, format_, units_[i], {buffer.get(), bytes});
      const std::lock_guard lock(mutex_);
      if (!packed)
        note_error(i, packed.error());
      else
        note_done(units_[i], std::move(*packed));
    }
  }

  // Units are taken in order and those under way are finished, so the first fault of the model is the one reported.
  void note_error(std::size_t unit, const Error& error) {
    failed_ = true;
    if (error_ && error_unit_ < unit) return;
    error_unit_ = unit;
    error_ = error;
  }

  void note_done(Unit unit, PackedExpert packed) {
    const auto layer = static_cast<std::size_t>(unit.layer);
    packed_[layer][static_cast<std::size_t>(unit.expert)] = std::move(packed);
    if (--left_[layer] > 0) return;
    ++layers_done_;
    if (progress_) progress_(layers_done_, static_cast<int>(packed_.size()));
  }

  const Checkpoint& checkpoint_;
  const TileFormat format_;
  const std::function<void(int, int)>& progress_;
  const std::function<bool()>& stop_;
  std::vector<Unit> units_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_; // below: under it
  std::vector<std::vector<PackedExpert>> packed_;
  std::vector<int> left_;
  int layers_done_ = 0;
  std::size_t error_unit_ = 0;
  std::optional<Error> error_;
};

// The FFN's input is normalised and multiplied by these weights; where a family names the norm otherwise, 1 is a fair guess
// (the guard does not depend on it, only how often a round is repeated).
double input_rms(const Checkpoint& checkpoint, int layer) {
  const auto norm =
      checkpoint.vector(fmt::format("model.layers.{}.post_attention_layernorm.weight", layer), checkpoint.config().hidden);
  if (!norm) return 1;
  double sum = 0;
  for (const float value : *norm) sum += double{value} * double{value};
  const double rms = std::sqrt(sum / static_cast<double>(norm->size()));
  return std::isfinite(rms) && rms > 0 ? rms : 1;
}

LayerManifest layer_manifest(const Checkpoint& checkpoint, int layer, std::vector<PackedExpert>& packed) {
  const ModelConfig& config = checkpoint.config();
  const int shared = shared_expert(config, layer);
  const bool moe = is_moe_layer(config, layer);
  LayerActivation activation{input_rms(checkpoint, layer), 1, 1};
  int slices = expert_slices(config, layer, 0);
  if (moe) {
    activation.experts_per_token = std::max(config.moe.experts_per_token, 1);
    activation.routed_weight = config.moe.scale;
    slices *= activation.experts_per_token;
    if (shared >= 0) slices += expert_slices(config, layer, shared);
  }
  LayerManifest manifest;
  manifest.layer = layer;
  std::vector<ExpertNorms> norms;
  for (PackedExpert& expert : packed) {
    manifest.digest.push_back(std::move(expert.digest));
    norms.push_back(std::move(expert.norms));
  }
  for (const double rms : expected_rms(config.hidden, norms, shared, activation))
    manifest.exponent.push_back(fixed_exponent(rms, slices));
  return manifest;
}

} // namespace

std::string model_id(const Checkpoint& checkpoint, TileFormat format) {
  const std::string text =
      fmt::format("ductl {} slices, packer {}, checkpoint {}", format_name(format), kPackerVersion, checkpoint.identity());
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

Expected<Manifest> make_manifest(const Checkpoint& checkpoint, TileFormat format, int threads,
                                 const std::function<void(int, int)>& progress, const std::function<bool()>& stop) {
  const ModelConfig& config = checkpoint.config();
  if (auto ok = check_sliceable(config); !ok) return tl::unexpected<Error>(ok.error());
  PackRun run(checkpoint, format, progress, stop);
  if (auto ok = run.run(threads); !ok) return tl::unexpected<Error>(ok.error());
  Manifest manifest;
  manifest.model_id = model_id(checkpoint, format);
  manifest.format = format;
  manifest.hidden = config.hidden;
  manifest.layout = slice_layout(config.hidden, format);
  for (int layer = 0; layer < decoder_layers(config); ++layer)
    manifest.layers.push_back(layer_manifest(checkpoint, layer, run.layer(layer)));
  return manifest;
}

Expected<Manifest> obtain_manifest(const Checkpoint& checkpoint, TileFormat format, const std::filesystem::path& cache,
                                   int threads, const std::function<void(int, int)>& progress,
                                   const std::function<bool()>& stop) {
  const std::string id = model_id(checkpoint, format);
  const std::filesystem::path file = manifest_file(cache, id);
  // A file that is missing, damaged or another model's is simply made again.
  const auto layers = static_cast<std::size_t>(decoder_layers(checkpoint.config()));
  if (auto cached = load_manifest(file); cached && cached->model_id == id && cached->layers.size() == layers) return cached;
  auto made = make_manifest(checkpoint, format, threads, progress, stop);
  if (!made) return made;
  if (auto ok = save_manifest(*made, file); !ok) return tl::unexpected<Error>(ok.error());
  return made;
}

SliceDigest combined_digest(std::span<const HeldSlice> sorted_slices) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (const HeldSlice& slice : sorted_slices) {
    const std::uint64_t fields[3] = {slice.id.expert, slice.id.index, slice.digest};
    XXH3_64bits_update(state, fields, sizeof fields);
  }
  const SliceDigest digest = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return digest;
}

} // namespace ductl::weights
