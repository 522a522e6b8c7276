// AttentionBackend on the host's CPU: the reference. Weights stay mapped in the checkpoint's own types (bf16, f16, f32, or
// fp8 with block scales) and are converted in registers; residual, norms, KV cache and softmax are float.
#pragma once

#include "engine/attention/attention_backend.hpp"
#include "engine/attention/index_keys.hpp"
#include "inventory/inventory.hpp"
#include "weights/checkpoint.hpp"

namespace ductl::engine {

struct CpuBackendOptions {
  int threads = 0; // 0 = one a core
  int lanes = 1;
  int tokens_max = 64;                                         // of one batch
  inventory::IndexKeys index_keys = inventory::IndexKeys::F32; // of models with sparse attention
};
// Checks every tensor that it needs, by name and shape, before anything is computed. `checkpoint` must outlive the backend.
[[nodiscard]] Expected<std::unique_ptr<AttentionBackend>> make_cpu_backend(const weights::Checkpoint& checkpoint,
                                                                           const CpuBackendOptions& options);

} // namespace ductl::engine
