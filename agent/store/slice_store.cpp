#include "agent/store/slice_store.hpp"

#include "agent/kernels/expert.hpp"
#include "agent/store/slice_arena.hpp"
#include "weights/fixed_point.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace ductl::agent {

namespace {

using weights::HeldSlice;
using weights::SliceDigest;
using weights::SliceId;

struct Slice {
  std::shared_ptr<std::byte> bytes;
  SliceDigest digest = 0;
  float guard_factor = 0;
};

// An index that owns the slices it points to: they stay until the last reader of the index has let go of it.
struct OwningIndex : ActiveIndex {
  std::vector<std::shared_ptr<std::byte>> owned;
};

std::string name_of(SliceId id) { return fmt::format("layer {} expert {} slice {}", id.layer, id.expert, id.index); }

SliceDigest digest_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::vector<float> fixed_scales(const std::vector<std::int16_t>& exponent) {
  std::vector<float> scales;
  scales.reserve(exponent.size());
  for (const std::int16_t e : exponent) scales.push_back(weights::fixed_scale(e, 0));
  return scales;
}

class RamSliceStore final : public SliceStore {
public:
  explicit RamSliceStore(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  Expected<void> set_model(const StoreModel& model) override {
    const std::lock_guard lock(mutex_);
    if (model == model_) return {};
    slices_.clear();
    model_ = model;
    slice_bytes_ = weights::slice_layout(model.hidden, model.format).bytes;
    arena_ = std::make_shared<SliceArena>(slice_bytes_); // the old one ends with the last index that uses it
    scales_.clear();
    for (const auto& exponent : model.exponent)
      scales_.push_back(std::make_shared<const std::vector<float>>(fixed_scales(exponent)));
    set_active(nullptr);
    return {};
  }

  [[nodiscard]] std::string model_id() const override {
    const std::lock_guard lock(mutex_);
    return model_.model_id;
  }

  [[nodiscard]] weights::TileFormat format() const override {
    const std::lock_guard lock(mutex_);
    return model_.format;
  }

  [[nodiscard]] int layers() const override {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(model_.experts.size());
  }

  [[nodiscard]] std::size_t slice_bytes() const override {
    const std::lock_guard lock(mutex_);
    return slice_bytes_;
  }

  Expected<void> put(SliceId id, std::span<const std::byte> bytes, SliceDigest digest) override {
    // The lock is not held while bytes are hashed and copied; what the slice belongs to is checked again at the end.
    std::shared_ptr<SliceArena> arena;
    std::shared_ptr<const std::vector<float>> scales;
    int hidden = 0;
    weights::TileFormat format{};
    {
      const std::lock_guard lock(mutex_);
      if (auto fits = check_put(id, bytes.size()); !fits) return fits;
      arena = arena_;
      scales = scales_[id.layer];
      hidden = model_.hidden;
      format = model_.format;
    }
    if (digest_of(bytes) != digest)
      return fail(ErrorCode::kAgentRefused, "the digest of " + name_of(id) + " is not that of its bytes", {}, "send it again");
    Slice slice{arena->allocate(), digest, 0};
    if (!slice.bytes)
      return fail(ErrorCode::kModelDoesNotFit, "the system gives no memory for " + name_of(id), {}, "use more ducks");
    std::memcpy(slice.bytes.get(), bytes.data(), bytes.size());
    slice.guard_factor = slice_guard_factor(slice.bytes.get(), hidden, format, scales->data());
    const std::lock_guard lock(mutex_);
    if (arena != arena_)
      return fail(ErrorCode::kAgentRefused, "the model changed while " + name_of(id) + " was stored", {}, "send it again");
    slices_[id] = std::move(slice);
    return {};
  }

  std::size_t drop(std::span<const SliceId> ids) override {
    const std::lock_guard lock(mutex_);
    std::size_t dropped = 0;
    for (const SliceId& id : ids) dropped += slices_.erase(id);
    return dropped;
  }

  [[nodiscard]] std::vector<HeldSlice> list(int layer) const override {
    const std::lock_guard lock(mutex_);
    std::vector<HeldSlice> out;
    if (layer < 0 || layer > 65535) return out;
    for (auto it = slices_.lower_bound({static_cast<std::uint16_t>(layer), 0, 0});
         it != slices_.end() && it->first.layer == layer; ++it)
      out.push_back({it->first, it->second.digest});
    return out;
  }

  [[nodiscard]] std::uint64_t count() const override {
    const std::lock_guard lock(mutex_);
    return slices_.size();
  }

  [[nodiscard]] std::uint64_t bytes() const override {
    const std::lock_guard lock(mutex_);
    return slices_.size() * slice_bytes_;
  }

  std::vector<SliceId> scrub(std::uint64_t bytes_max) override {
    std::vector<std::pair<SliceId, Slice>> chosen = choose_for_scrub(bytes_max);
    const std::size_t size = slice_bytes();
    std::vector<SliceId> damaged;
    for (const auto& [id, slice] : chosen) {
      if (digest_of({slice.bytes.get(), size}) == slice.digest) continue;
      const std::lock_guard lock(mutex_);
      if (is_active(id, slice.bytes.get())) set_active(nullptr);
      const auto found = slices_.find(id);
      if (found == slices_.end() || found->second.bytes != slice.bytes) continue; // dropped or replaced meanwhile
      slices_.erase(found);
      damaged.push_back(id);
    }
    return damaged;
  }

  Expected<void> activate(std::uint32_t epoch, std::span<const SliceId> ids) override {
    std::vector<SliceId> sorted(ids.begin(), ids.end());
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return fail(ErrorCode::kAgentRefused, "an epoch names a slice twice", {}, "run `ductl up`: it names each slice once");
    auto index = std::make_shared<OwningIndex>();
    index->epoch = epoch;
    const std::lock_guard lock(mutex_);
    if (model_.model_id.empty())
      return fail(ErrorCode::kAgentRefused, "there is no model yet", {}, "fill this duck with ductl up");
    index->hidden = model_.hidden;
    index->format = model_.format;
    index->layers.resize(model_.experts.size());
    if (auto taken = take_slices(sorted, *index); !taken) return taken;
    for (std::size_t layer = 0; layer < index->layers.size(); ++layer) finish_layer(layer, index->layers[layer]);
    set_active(std::move(index));
    return {};
  }

  [[nodiscard]] std::shared_ptr<const ActiveIndex> active() const override {
    const std::lock_guard lock(active_mutex_);
    return active_;
  }

private:
  Expected<void> check_put(SliceId id, std::size_t bytes) const {
    if (!arena_) return fail(ErrorCode::kAgentRefused, "there is no model yet", {}, "send the model first");
    if (id.layer >= model_.experts.size() || id.expert >= model_.experts[id.layer])
      return fail(ErrorCode::kAgentRefused, "this model has no " + name_of(id), {},
                  "the duck was given another model: run `ductl up`");
    if (bytes != slice_bytes_)
      return fail(ErrorCode::kAgentRefused, fmt::format("{} has {} bytes, not {}", name_of(id), bytes, slice_bytes_), {},
                  "the duck was given another model: run `ductl up`");
    if (!slices_.contains(id) && (slices_.size() + 1) * slice_bytes_ > bytes_max_)
      return fail(
          ErrorCode::kModelDoesNotFit,
          fmt::format("{} slices of {} bytes are held, and the limit is {} bytes", slices_.size(), slice_bytes_, bytes_max_), {},
          "raise this duck's memory limit, or use more ducks");
    return {};
  }

  // The next slices in order, going round, each held so that it stays while it is hashed.
  std::vector<std::pair<SliceId, Slice>> choose_for_scrub(std::uint64_t bytes_max) {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<SliceId, Slice>> chosen;
    if (slices_.empty()) return chosen;
    const std::size_t count = std::min<std::uint64_t>(slices_.size(), std::max<std::uint64_t>(1, bytes_max / slice_bytes_));
    auto it = slices_.upper_bound(scrubbed_);
    while (chosen.size() < count) {
      if (it == slices_.end()) it = slices_.begin();
      chosen.emplace_back(*it++);
    }
    scrubbed_ = chosen.back().first;
    return chosen;
  }

  Expected<void> take_slices(std::span<const SliceId> sorted, OwningIndex& index) const {
    for (const SliceId& id : sorted) {
      const auto found = slices_.find(id);
      if (found == slices_.end())
        return fail(ErrorCode::kAgentRefused, name_of(id) + " is not held here", {}, "send it, then activate the epoch again");
      index.layers[id.layer].slices.push_back({id.expert, id.index, found->second.bytes.get(), found->second.guard_factor});
      index.owned.push_back(found->second.bytes);
    }
    return {};
  }

  void finish_layer(std::size_t number, ActiveLayer& layer) const {
    layer.fixed_scale = *scales_[number];
    layer.first.resize(static_cast<std::size_t>(model_.experts[number]) + 1);
    std::size_t at = 0;
    for (std::size_t expert = 0; expert < layer.first.size(); ++expert) {
      while (at < layer.slices.size() && layer.slices[at].expert < expert) ++at;
      layer.first[expert] = static_cast<std::uint32_t>(at);
    }
  }

  [[nodiscard]] bool is_active(SliceId id, const std::byte* bytes) const {
    const auto index = active();
    if (!index || id.layer >= index->layers.size()) return false;
    const auto& slices = index->layers[id.layer].slices;
    return std::any_of(slices.begin(), slices.end(), [&](const ActiveSlice& slice) { return slice.bytes == bytes; });
  }

  void set_active(std::shared_ptr<const ActiveIndex> index) {
    const std::lock_guard lock(active_mutex_); // never held for longer than this swap: the data plane takes it
    active_.swap(index);
  } // the old index goes here, after the lock

  const std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  StoreModel model_;
  std::size_t slice_bytes_ = 0;
  std::shared_ptr<SliceArena> arena_;
  std::vector<std::shared_ptr<const std::vector<float>>> scales_; // [layer]
  std::map<SliceId, Slice> slices_;
  SliceId scrubbed_;
  mutable std::mutex active_mutex_;
  std::shared_ptr<const ActiveIndex> active_;
};

} // namespace

std::unique_ptr<SliceStore> make_slice_store(std::uint64_t bytes_max) { return std::make_unique<RamSliceStore>(bytes_max); }

} // namespace ductl::agent
