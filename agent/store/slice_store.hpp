// The slices a duck holds, in RAM.
//
// The control plane fills it (any thread, locked); the data plane reads it (one thread) through an immutable index that is
// swapped whole when an epoch is activated, so that a round never waits and never sees half an update.
// Lifetime of slice bytes: until dropped and no active index refers to them any more.
#pragma once

#include "inventory/error.hpp"
#include "weights/manifest.hpp"
#include "weights/slice.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ductl::agent {

// What the duck must know of the model to store and compute slices; sent by the control plane, from the manifest.
struct StoreModel {
  std::string model_id;
  int hidden = 0;
  weights::TileFormat format = weights::TileFormat::NineBit;
  std::vector<std::vector<std::int16_t>> exponent; // [layer][128-row block]
  std::vector<int> experts;                        // [layer] number of FFNs
  bool operator==(const StoreModel&) const = default;
};

// One layer of the active index.
struct ActiveSlice {
  std::uint16_t expert = 0, index = 0;
  const std::byte* bytes = nullptr;
  float guard_factor = 0; // at rung 0
};
struct ActiveLayer {
  std::vector<ActiveSlice> slices;  // sorted by expert, index
  std::vector<std::uint32_t> first; // [experts + 1]: slices of expert e are first[e] .. first[e+1]-1
  std::vector<float> fixed_scale;   // [blocks] 2^exponent
};
struct ActiveIndex {
  std::uint32_t epoch = 0;
  int hidden = 0;
  weights::TileFormat format = weights::TileFormat::NineBit;
  std::vector<ActiveLayer> layers;
};

class SliceStore {
public:
  virtual ~SliceStore() = default;
  // A new model drops every slice of the old one and ends its epoch; the same one again changes nothing.
  [[nodiscard]] virtual Expected<void> set_model(const StoreModel& model) = 0;
  [[nodiscard]] virtual std::string model_id() const = 0;       // "" = none
  [[nodiscard]] virtual weights::TileFormat format() const = 0; // of its slices
  [[nodiscard]] virtual int layers() const = 0;                 // of the model; 0 = none
  [[nodiscard]] virtual std::size_t slice_bytes() const = 0;    // 0 = no model
  // Copies `bytes`; refuses a wrong size or a digest that does not match.
  [[nodiscard]] virtual Expected<void> put(weights::SliceId id, std::span<const std::byte> bytes,
                                           weights::SliceDigest digest) = 0;
  // Forgets them; their memory stays while an active index refers to it.
  virtual std::size_t drop(std::span<const weights::SliceId> ids) = 0;             // how many were there
  [[nodiscard]] virtual std::vector<weights::HeldSlice> list(int layer) const = 0; // sorted by id
  [[nodiscard]] virtual std::uint64_t count() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  // Re-hashes up to `bytes_max` bytes, going round; returns the slices found damaged. They are dropped, and when one of them is
  // in the active index that index ends: nothing is computed with it any more.
  virtual std::vector<weights::SliceId> scrub(std::uint64_t bytes_max) = 0;
  // Builds the index of exactly these slices and makes it the active one. All must be held.
  [[nodiscard]] virtual Expected<void> activate(std::uint32_t epoch, std::span<const weights::SliceId> ids) = 0;
  [[nodiscard]] virtual std::shared_ptr<const ActiveIndex> active() const = 0; // null = none
};

// Refuses slices beyond `bytes_max`.
[[nodiscard]] std::unique_ptr<SliceStore> make_slice_store(std::uint64_t bytes_max = ~std::uint64_t{0});

} // namespace ductl::agent
