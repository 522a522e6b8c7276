// A model ready to compute: checkpoint, attention backend, router, and FFNs on a flock or in process, joined in a Forward.
#pragma once

#include "agent/client/serving.hpp"
#include "agent/client/state_folder.hpp"
#include "engine/attention/attention_backend.hpp"
#include "engine/lanes/forward.hpp"
#include "engine/moe/flock_ffn.hpp"
#include "weights/checkpoint.hpp"
#include "weights/manifest.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ductl::engine {

struct FlockAccess {
  agent::Serving serving;
  std::string key;
  agent::StateFolder state = {};
};
// serving.json and the key of a flock's state folder. Settings that this build can't do are refused.
[[nodiscard]] Expected<FlockAccess> read_flock_access(const std::filesystem::path& state);

struct ComputeOptions {
  std::string source;                                  // as open_checkpoint takes it
  std::optional<FlockAccess> flock;                    // none: FFNs in process, unquantised
  int threads = 0;                                     // 0 = one a core
  std::optional<bool> bf16_hidden;                     // else what the flock's engine settings say
  std::optional<inventory::IndexKeys> index_keys = {}; // likewise; float without a flock
  // The context that will be computed, from the model's config; memory for it is checked before anything else.
  std::function<Expected<int>(const weights::ModelConfig&)> context;
  std::function<void(const std::string&)> on_stage; // may be empty
};

class ComputeModel {
public:
  [[nodiscard]] static Expected<std::unique_ptr<ComputeModel>> open(const ComputeOptions& options);
  [[nodiscard]] const weights::Checkpoint& checkpoint() const { return *checkpoint_; }
  [[nodiscard]] const weights::ModelConfig& config() const { return checkpoint_->config(); }
  [[nodiscard]] int context() const { return context_; }
  [[nodiscard]] inventory::IndexKeys index_keys() const { return index_keys_; }
  [[nodiscard]] Forward& forward() { return *forward_; }
  [[nodiscard]] const FlockFfn* flock() const { return flock_; } // null: in process

private:
  ComputeModel() = default;
  Expected<void> open_ffn(const ComputeOptions& options);

  // In order of making: later ones hold references to earlier ones.
  std::unique_ptr<weights::Checkpoint> checkpoint_;
  int context_ = 0;
  inventory::IndexKeys index_keys_ = inventory::IndexKeys::F32;
  std::unique_ptr<AttentionBackend> attention_;
  std::optional<weights::Manifest> manifest_; // with a flock
  std::unique_ptr<Ffn> ffn_;
  const FlockFfn* flock_ = nullptr;
  std::optional<Router> router_;
  std::optional<Forward> forward_;
};

} // namespace ductl::engine
