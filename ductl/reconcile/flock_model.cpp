#include "ductl/reconcile/flock_model.hpp"

#include "ductl/boot/duck_image.hpp"
#include "inventory/version.hpp"
#include "weights/budget.hpp"
#include "weights/context_length.hpp"
#include "weights/stored_format.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <thread>

namespace ductl::reconcile {
namespace {

constexpr std::uint64_t kDiskSlackBytes = 64ull << 20; // logs, serving.json, placement of a small model
constexpr std::uint64_t kDiskBytesPerSlice = 32;       // a digest in the manifest and an owner in the placement, as text

std::uint64_t memory_available_bytes() {
  std::ifstream in("/proc/meminfo");
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with("MemAvailable:")) continue;
    std::uint64_t kilobytes = 0;
    const std::size_t digits = line.find_first_of("0123456789");
    if (digits != std::string::npos) std::from_chars(line.data() + digits, line.data() + line.size(), kilobytes);
    return kilobytes * 1024;
  }
  return 0;
}

std::uint64_t disk_available_bytes(std::filesystem::path folder) {
  std::error_code error;
  while (!std::filesystem::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  const auto space = std::filesystem::space(folder, error);
  return error ? 0 : space.available;
}

int packing_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

weights::PlacementDuck placement_duck(const inventory::Flock& flock, const inventory::Duck& duck, std::size_t slice_bytes) {
  weights::PlacementDuck result{.name = duck.name};
  if (const std::uint64_t bytes = inventory::slice_memory(flock, duck); bytes != 0) result.slices_max = bytes / slice_bytes;
  return result;
}

agent::Serving serving_of(const inventory::Flock& flock) {
  agent::Serving serving{.flock = flock.name,
                         .model_source = {},
                         .chat_format = flock.model.chat_format,
                         .manifest = {},
                         .epoch = 0,
                         .slices_total = 0,
                         .ports = flock.ports,
                         .ducks = {},
                         .engine = flock.engine,
                         .limits = flock.limits};
  for (const inventory::Duck& duck : flock.ducks) {
    serving.ducks.push_back({.name = duck.name,
                             .port_index = duck.port_index,
                             .address = duck.address,
                             .control_port = flock.agent_ports.control,
                             .data_port = flock.agent_ports.data});
  }
  return serving;
}

DuckKind kind_of(const inventory::Flock& flock) {
  return inventory::has_local_ducks(flock) ? DuckKind::Process : DuckKind::Machine;
}

// A machine's agent is what its image holds: it is replaced by booting another image, and by nothing else.
std::string wanted_version(const inventory::Flock& flock) { return inventory::has_local_ducks(flock) ? kBuild : ""; }

// Where ducks boot from us and there is an image. `ductl up` says what it lacks when it has to serve one.
std::string wanted_image(const inventory::Flock& flock) {
  if (!flock.netboot.enabled) return {};
  const auto image = boot::find_duck_image(flock);
  return image ? image->manifest.image : std::string();
}

} // namespace

Expected<FlockModel> open_flock_model(const inventory::Flock& flock) {
  FlockModel model;
  model.source = inventory::model_source(flock);
  std::error_code error;
  if (std::filesystem::exists(model.source, error))
    model.source = std::filesystem::absolute(model.source).lexically_normal().string();
  auto checkpoint = weights::open_checkpoint(model.source);
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  model.checkpoint = std::move(*checkpoint);
  if (auto ok = weights::check_sliceable(model.checkpoint->config()); !ok) return tl::unexpected(ok.error());
  if (auto ok = weights::check_tensors(*model.checkpoint); !ok) return tl::unexpected(ok.error());
  auto format = weights::choose_format(*model.checkpoint, flock.model.format);
  if (!format) return tl::unexpected(format.error());
  model.format = *format;
  return model;
}

Expected<void> check_fit(const FlockModel& model, const inventory::Flock& flock, const agent::StateFolder& state,
                         std::uint64_t reclaimable_bytes) {
  const weights::ModelConfig& config = model.checkpoint->config();
  const auto context = weights::choose_context_length(config, flock.engine.context_length);
  if (!context) return tl::unexpected(context.error());
  weights::Budget budget =
      weights::flock_budget(config, *context, flock, memory_available_bytes() + reclaimable_bytes, model.format);
  budget.disk_needed = kDiskSlackBytes + kDiskBytesPerSlice * weights::slice_count(config);
  budget.disk_available = std::min(disk_available_bytes(state.root), disk_available_bytes(agent::cache_folder()));
  return weights::check_budget(budget);
}

Expected<void> place_model(FlockModel& model, const inventory::Flock& flock, const agent::StateFolder& state,
                           const std::function<void(int, int)>& progress, const std::function<bool()>& interrupted) {
  const std::filesystem::path cache = agent::cache_folder();
  auto manifest = weights::obtain_manifest(*model.checkpoint, model.format, cache, packing_threads(), progress, interrupted);
  if (!manifest) return tl::unexpected(manifest.error());
  model.manifest = std::move(*manifest);
  model.manifest_file = weights::manifest_file(cache, model.manifest.model_id);

  std::vector<weights::PlacementDuck> ducks;
  for (const inventory::Duck& duck : flock.ducks) ducks.push_back(placement_duck(flock, duck, model.manifest.layout.bytes));
  const auto before = weights::load_placement(state.placement()); // unreadable = made anew
  auto placement = weights::place_slices(model.checkpoint->config(), model.manifest.model_id, ducks, before ? &*before : nullptr);
  if (!placement) return tl::unexpected(placement.error());
  model.placement = std::move(*placement);
  return {};
}

Expected<void> save_changed_placement(const FlockModel& model, const agent::StateFolder& state) {
  const auto before = weights::load_placement(state.placement());
  if (before && *before == model.placement) return {};
  return weights::save_placement(model.placement, state.placement());
}

Desired desired_state(const FlockModel& model, const inventory::Flock& flock, Goal goal) {
  Desired desired{.goal = goal,
                  .flock = flock.name,
                  .kind = kind_of(flock),
                  .version = wanted_version(flock),
                  .image = wanted_image(flock),
                  .model_id = model.manifest.model_id,
                  .format = std::string(weights::format_name(model.format)),
                  .threads = flock.agent_threads,
                  .ducks = {},
                  .serving = serving_of(flock)};
  for (std::size_t i = 0; i < flock.ducks.size(); ++i) {
    const std::uint64_t slices = model.placement.slices_of(static_cast<int>(i)).size();
    desired.ducks.push_back({.name = flock.ducks[i].name,
                             .slices = slices,
                             .bytes = slices * model.manifest.layout.bytes,
                             .cores = flock.ducks[i].cores,
                             .memory_bytes = flock.ducks[i].memory_bytes,
                             .mac = flock.ducks[i].mac});
    desired.serving.slices_total += slices;
  }
  desired.serving.model_source = model.source;
  desired.serving.manifest = model.manifest_file;
  desired.serving.epoch = model.placement.epoch;
  return desired;
}

Desired remembered_state(const inventory::Flock& flock, const agent::StateFolder& state, Goal goal) {
  Desired desired{.goal = goal,
                  .flock = flock.name,
                  .kind = kind_of(flock),
                  .version = wanted_version(flock),
                  .image = wanted_image(flock),
                  .model_id = {},
                  .format = {},
                  .threads = flock.agent_threads,
                  .ducks = {},
                  .serving = serving_of(flock)};
  std::map<std::string, std::uint64_t> slices;
  if (const auto placement = weights::load_placement(state.placement())) {
    desired.model_id = placement->model_id;
    std::vector<std::uint64_t> counts(placement->ducks.size(), 0);
    for (const auto& layer : placement->owner) {
      for (const auto& expert : layer) {
        for (const std::uint16_t duck : expert) {
          if (duck < counts.size()) ++counts[duck];
        }
      }
    }
    for (std::size_t i = 0; i < counts.size(); ++i) slices[placement->ducks[i]] = counts[i];
  }
  for (const inventory::Duck& duck : flock.ducks) {
    desired.ducks.push_back({.name = duck.name,
                             .slices = slices[duck.name],
                             .cores = duck.cores,
                             .memory_bytes = duck.memory_bytes,
                             .mac = duck.mac});
  }
  return desired;
}

} // namespace ductl::reconcile
