// The model of a flock on the host's side, made ready for filling: opened, checked, found to fit, packed once (manifest), placed.
#pragma once

#include "agent/client/state_folder.hpp"
#include "ductl/reconcile/desired.hpp"
#include "inventory/inventory.hpp"
#include "weights/checkpoint.hpp"
#include "weights/manifest.hpp"
#include "weights/placement.hpp"

#include <functional>
#include <memory>

namespace ductl::reconcile {

struct FlockModel {
  std::string source; // as open_checkpoint takes it, from any working folder
  std::unique_ptr<weights::Checkpoint> checkpoint;
  weights::TileFormat format = weights::TileFormat::NineBit; // of the slices
  weights::Manifest manifest = {};
  std::filesystem::path manifest_file = {};
  weights::Placement placement = {};
};

// Opens it, checks that it can be cut and chooses the form of its slices; reads headers only.
[[nodiscard]] Expected<FlockModel> open_flock_model(const inventory::Flock& flock);

// kContextLength when the context is beyond the model; kModelDoesNotFit when ducks, host or disk are too small, from the config
// alone. Local ducks share this machine's memory: `reclaimable_bytes` is what our own processes hold now, and would give back.
[[nodiscard]] Expected<void> check_fit(const FlockModel& model, const inventory::Flock& flock, const agent::StateFolder& state,
                                       std::uint64_t reclaimable_bytes);

// Manifest (from the cache, or by packing every slice once: `progress` with layers done and in all; kCancelled once `interrupted`
// is true) and placement.
[[nodiscard]] Expected<void> place_model(FlockModel& model, const inventory::Flock& flock, const agent::StateFolder& state,
                                         const std::function<void(int, int)>& progress, const std::function<bool()>& interrupted);

// Before any duck acts on it, so that the next command starts from this placement.
[[nodiscard]] Expected<void> save_changed_placement(const FlockModel& model, const agent::StateFolder& state);

[[nodiscard]] Desired desired_state(const FlockModel& model, const inventory::Flock& flock, Goal goal);
// Without opening the model: what the state folder remembers of it. For status and down.
[[nodiscard]] Desired remembered_state(const inventory::Flock& flock, const agent::StateFolder& state, Goal goal);

} // namespace ductl::reconcile
