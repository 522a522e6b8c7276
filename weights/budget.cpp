#include "weights/budget.hpp"

#include "weights/apportion.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace ductl::weights {
namespace {

struct Count {
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0; // in the checkpoint's own types
};

// Sums weights by how a checkpoint stores them: fp8 matrices with F32 block scales, or elements of torch_dtype.
class Tally {
public:
  explicit Tally(const ModelConfig& config) : config_(config) {}
  void plain(std::uint64_t elements) { add(elements, elements * static_cast<std::uint64_t>(config_.element_bytes)); }
  void f32(std::uint64_t elements) { add(elements, elements * 4); }
  // A projection, quantised in fp8 checkpoints.
  void projection(std::uint64_t rows, std::uint64_t columns) {
    if (!config_.fp8_blocks) return plain(rows * columns);
    add(rows * columns,
        rows * columns + 4 * ((rows + kScaleBlock - 1) / kScaleBlock) * ((columns + kScaleBlock - 1) / kScaleBlock));
  }
  [[nodiscard]] Count count() const { return count_; }

private:
  void add(std::uint64_t parameters, std::uint64_t bytes) {
    count_.parameters += parameters;
    count_.bytes += bytes;
  }
  const ModelConfig& config_;
  Count count_;
};

std::uint64_t wide(int value) { return static_cast<std::uint64_t>(value); }

void add_plain_attention(const ModelConfig& c, Tally& tally) {
  const std::uint64_t q = wide(c.heads) * wide(c.head_dim), kv = wide(c.kv_heads) * wide(c.head_dim);
  tally.projection(q, wide(c.hidden));
  tally.projection(kv, wide(c.hidden));
  tally.projection(kv, wide(c.hidden));
  tally.projection(wide(c.hidden), q);
  if (c.qk_norm) tally.plain(2 * wide(c.head_dim));
}

void add_mla(const ModelConfig& c, Tally& tally) {
  const Mla& m = c.mla;
  const std::uint64_t heads = wide(c.heads), hidden = wide(c.hidden), q_rank = wide(m.q_lora_rank),
                      kv_rank = wide(m.kv_lora_rank);
  if (q_rank > 0) {
    tally.projection(q_rank, hidden);
    tally.plain(q_rank);
  }
  tally.projection(heads * wide(m.nope_dim + m.rope_dim), q_rank > 0 ? q_rank : hidden);
  tally.projection(kv_rank + wide(m.rope_dim), hidden);
  tally.plain(kv_rank);
  tally.projection(heads * wide(m.nope_dim + m.v_dim), kv_rank);
  tally.projection(hidden, heads * wide(m.v_dim));
  if (c.indexer.heads == 0) return;
  const std::uint64_t dim = wide(c.indexer.head_dim), index_heads = wide(c.indexer.heads);
  tally.projection(index_heads * dim, q_rank);
  tally.projection(dim, hidden);
  tally.f32(2 * dim); // k_norm weight and bias
  tally.plain(index_heads * hidden);
}

std::uint64_t embedding_count(const ModelConfig& c) { return wide(c.vocab) * wide(c.hidden) * (c.tied_embeddings ? 1u : 2u); }

void add_attention(const ModelConfig& c, Tally& tally) {
  if (c.mla.kv_lora_rank > 0)
    add_mla(c, tally);
  else
    add_plain_attention(c, tally);
}

std::uint64_t attention_count(const ModelConfig& c) {
  Tally tally(c);
  for (int layer = 0; layer < decoder_layers(c); ++layer) add_attention(c, tally);
  return tally.count().parameters;
}

Count host_count(const ModelConfig& c) {
  Tally tally(c);
  tally.plain(embedding_count(c));
  tally.plain(wide(c.hidden)); // final norm
  for (int layer = 0; layer < decoder_layers(c); ++layer) {
    tally.plain(2 * wide(c.hidden));
    if (layer >= c.layers) tally.plain((3 + 2 * wide(c.hidden)) * wide(c.hidden)); // three norms, eh_proj
    add_attention(c, tally);
    if (!is_moe_layer(c, layer)) continue;
    tally.plain(wide(c.moe.experts) * wide(c.hidden));
    if (c.moe.sigmoid_scores) tally.f32(wide(c.moe.experts));
  }
  return tally.count();
}

bool on_host(const ModelConfig& c, int layer, int expert, HostFfn host_ffn) {
  if (host_ffn == HostFfn::None || c.moe.experts == 0) return false;
  return !is_moe_layer(c, layer) || expert == shared_expert(c, layer);
}

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1ull << 30) return fmt::format("{:.2f} GiB ({} bytes)", static_cast<double>(bytes) / (1ull << 30), bytes);
  return fmt::format("{:.1f} MiB ({} bytes)", static_cast<double>(bytes) / (1ull << 20), bytes);
}

// A byte a dimension and a scale, or floats (engine/attention/kv_cache.hpp).
std::uint64_t index_key_bytes(const ModelConfig& c, inventory::IndexKeys keys) {
  if (c.indexer.heads == 0) return 0;
  const std::uint64_t dims = wide(c.indexer.head_dim);
  return keys == inventory::IndexKeys::Fp8 ? dims + sizeof(float) : dims * sizeof(float);
}

// Slices that each duck will hold, rounded up; equal shares where the flock's memory is too small for all.
std::vector<std::uint64_t> duck_slices(const ModelConfig& config, const inventory::Flock& flock, std::uint64_t bytes) {
  const std::uint64_t slices = slice_count(config);
  const std::vector<double> weights(flock.ducks.size(), 1.0);
  std::vector<std::uint64_t> limits;
  for (const inventory::Duck& duck : flock.ducks) {
    const std::uint64_t memory = inventory::slice_memory(flock, duck);
    limits.push_back(memory == 0 ? ~0ull : memory / bytes);
  }
  std::vector<double> shares = share_targets(weights, limits, slices);
  if (shares.empty()) shares.assign(flock.ducks.size(), static_cast<double>(slices) / static_cast<double>(flock.ducks.size()));
  std::vector<std::uint64_t> whole;
  for (const double share : shares) whole.push_back(static_cast<std::uint64_t>(std::ceil(share)));
  return whole;
}

} // namespace

ModelSizes model_sizes(const ModelConfig& config, HostFfn host_ffn, inventory::IndexKeys index_keys, TileFormat format) {
  ModelSizes sizes;
  const Count host = host_count(config);
  sizes.host_parameters = host.parameters;
  sizes.host_weight_bytes = host.bytes;
  const std::uint64_t slice_bytes = slice_layout(config.hidden, format).bytes;
  sizes.embedding_parameters = embedding_count(config);
  sizes.attention_parameters = attention_count(config);
  Tally kept(config);     // FFNs that stay on the host
  std::uint64_t idle = 0; // routed experts that a token does not choose
  for (int layer = 0; layer < decoder_layers(config); ++layer) {
    for (int expert = 0; expert < expert_count(config, layer); ++expert) {
      const std::uint64_t channels = wide(expert_channels(config, layer, expert));
      const std::uint64_t parameters = 3 * channels * wide(config.hidden);
      if (is_moe_layer(config, layer) && expert == shared_expert(config, layer)) sizes.shared_parameters += parameters;
      if (is_moe_layer(config, layer) && expert >= config.moe.experts_per_token && expert < config.moe.experts)
        idle += parameters;
      if (on_host(config, layer, expert, host_ffn)) {
        kept.projection(channels, wide(config.hidden));
        kept.projection(channels, wide(config.hidden));
        kept.projection(wide(config.hidden), channels);
      } else {
        sizes.duck_parameters += parameters;
        sizes.duck_bytes += wide(expert_slices(config, layer, expert)) * slice_bytes;
      }
    }
  }
  sizes.host_parameters += kept.count().parameters;
  sizes.host_weight_bytes += kept.count().bytes;
  sizes.parameters = sizes.host_parameters + sizes.duck_parameters;
  sizes.active_parameters = sizes.parameters - idle;
  const bool mla = config.mla.kv_lora_rank > 0;
  const std::uint64_t values =
      mla ? wide(config.mla.kv_lora_rank + config.mla.rope_dim) : 2 * wide(config.kv_heads) * wide(config.head_dim);
  sizes.kv_bytes_per_token = wide(decoder_layers(config)) * (values * sizeof(float) + index_key_bytes(config, index_keys));
  return sizes;
}

Budget flock_budget(const ModelConfig& config, int context, const inventory::Flock& flock, std::uint64_t host_available,
                    TileFormat format) {
  const ModelSizes sizes = model_sizes(config, HostFfn::None, flock.engine.index_keys);
  const std::uint64_t slice_bytes = slice_layout(config.hidden, format).bytes;
  Budget budget;
  budget.context = context;
  budget.host_needed = sizes.host_weight_bytes + sizes.kv_bytes_per_token * wide(context);
  budget.host_available = host_available;
  const std::vector<std::uint64_t> slices = duck_slices(config, flock, slice_bytes);
  const double slices_all = static_cast<double>(std::accumulate(slices.begin(), slices.end(), std::uint64_t{0}));
  const bool beside = flock.power.kind == inventory::PowerKind::Process && host_available != 0;
  const std::uint64_t left = host_available - std::min(host_available, budget.host_needed);
  for (std::size_t i = 0; i < flock.ducks.size(); ++i) {
    const inventory::Duck& duck = flock.ducks[i];
    DuckBudget mine{duck.name, slices[i] * slice_bytes, inventory::slice_memory(flock, duck), duck.memory_bytes != 0};
    if (beside) { // 0 would mean "unknown"
      const double part = static_cast<double>(slices[i]) / std::max(1.0, slices_all);
      const auto share = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(left) * part));
      mine.by_memory_gib = mine.by_memory_gib && duck.memory_bytes <= share;
      mine.available = mine.by_memory_gib ? duck.memory_bytes : share;
    }
    budget.ducks.push_back(std::move(mine));
  }
  return budget;
}

Expected<void> check_budget(const Budget& budget) {
  std::string shortages, next;
  const auto add = [&](const std::string& what, std::uint64_t needed, std::uint64_t available, const std::string& advice) {
    if (available == 0 || needed <= available) return; // 0 = nobody could say
    shortages +=
        fmt::format("{}{} needs {} and has {}", shortages.empty() ? "" : "; ", what, size_text(needed), size_text(available));
    if (next.find(advice) == std::string::npos) next += (next.empty() ? "" : "; ") + advice;
  };
  for (const DuckBudget& duck : budget.ducks) {
    add(fmt::format("duck {}", duck.name), duck.needed, duck.available,
        fmt::format("add ducks to the inventory ([[ducks]]),{} or choose a smaller model.source",
                    duck.by_memory_gib ? " raise memory_gib where a duck has more," : ""));
  }
  add(fmt::format("the host (weights, and the KV cache of {} tokens)", budget.context), budget.host_needed, budget.host_available,
      "lower engine.context_length, or choose a smaller model.source");
  add("the disk of the state and cache folders", budget.disk_needed, budget.disk_available,
      "free space there, or point XDG_STATE_HOME and XDG_CACHE_HOME to a larger disk");
  if (shortages.empty()) return {};
  return fail(ErrorCode::kModelDoesNotFit, "the model does not fit: " + shortages, "", next);
}

} // namespace ductl::weights
