// Does the model fit? Bytes needed and available, on the host and on each duck, before anything is sent.
#pragma once

#include "inventory/inventory.hpp"
#include "weights/checkpoint.hpp"
#include "weights/slice.hpp"

namespace ductl::weights {

struct ModelSizes {
  std::uint64_t parameters = 0;
  std::uint64_t host_parameters = 0; // attention, norms, router, embeddings, head (and what host_ffn says)
  std::uint64_t duck_parameters = 0;
  // Parts of parameters: what a token is computed with, and of the host's part what lies where.
  std::uint64_t active_parameters = 0;    // all but the routed experts that a token does not choose
  std::uint64_t embedding_parameters = 0; // embedding and head, once when they are tied
  std::uint64_t attention_parameters = 0; // projections and inner norms of all layers, the indexer's among them
  std::uint64_t shared_parameters = 0;    // shared experts
  std::uint64_t host_weight_bytes = 0;    // in the checkpoint's own types
  std::uint64_t duck_bytes = 0;           // all slices, stored form
  std::uint64_t kv_bytes_per_token = 0;   // as this engine keeps it: float, the indexer's keys as asked
};
// Which FFNs the host keeps: none, as the engine runs, or those of a model with routed experts that every token passes (its dense
// layers' and its shared experts'). A model without routed experts has all of its FFNs on the ducks either way.
enum class HostFfn { None, DenseShared };

// From the config alone, no tensor is read. With the MTP layer, where config.mtp_layers says that there is one.
[[nodiscard]] ModelSizes model_sizes(const ModelConfig& config, HostFfn host_ffn = HostFfn::None,
                                     inventory::IndexKeys index_keys = inventory::IndexKeys::F32,
                                     TileFormat format = TileFormat::NineBit);

struct DuckBudget {
  std::string name;
  std::uint64_t needed = 0, available = 0;
  bool by_memory_gib = false; // what is available is what the inventory says, and not what this machine has
};                            // available 0 = unknown
struct Budget {
  std::vector<DuckBudget> ducks;
  std::uint64_t host_needed = 0, host_available = 0; // weights + KV of `context` tokens
  std::uint64_t disk_needed = 0, disk_available = 0; // state and cache folders
  int context = 0;
};
// What a model needs of a flock for a context, and what there is: the slices that each duck will hold (to a slice of each expert:
// weights/placement.hpp) against its memory in the inventory. Ducks that are processes beside the host share what the host leaves
// of `host_available` (0 = unknown) as they need it. Disk is left out.
[[nodiscard]] Budget flock_budget(const ModelConfig& config, int context, const inventory::Flock& flock,
                                  std::uint64_t host_available, TileFormat format = TileFormat::NineBit);

// Ok, or kModelDoesNotFit with every shortage, needed and available bytes, and which setting to change.
[[nodiscard]] Expected<void> check_budget(const Budget& budget);

} // namespace ductl::weights
