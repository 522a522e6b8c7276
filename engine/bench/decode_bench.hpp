// `duck-engine bench decode`: tokens a second of the whole engine on a flock, and which part of this machine's streaming read the
// bytes of its weights are. docs/kernels.md says what each figure means.
#pragma once

#include "engine/session/compute_model.hpp"

#include <nlohmann/json_fwd.hpp>

namespace ductl::engine {

struct DecodeBenchOptions {
  int samples = 7; // the medians are told
  int threads = 0; // of the engine, as the model was opened with, 0 = one a core; told only
  int ducks = 0;   // likewise
  std::function<void(const std::string& what, long done, long total)> on_progress; // may be empty
};

// Tokens of its prompt and its answers together: the context to open the model with.
[[nodiscard]] int bench_context(const weights::ModelConfig& config);

// Weights that one decoded token reads: of the FFNs, as the ducks hold them; of everything else, as the host holds it (of the
// embedding one row, which is not counted).
struct TokenBytes {
  std::uint64_t ffn = 0, host = 0;
};
[[nodiscard]] TokenBytes bytes_per_token(const weights::ModelConfig& config);

// "ductl/bench-decode/v1". Every sample is a streaming read of all cores, a prefill and some decoded tokens in turn.
// kHostMemory when there is none for the yardstick, kWeightNotFinite when logits are not finite, and what rounds fail with.
[[nodiscard]] Expected<nlohmann::ordered_json> bench_decode(ComputeModel& model, const DecodeBenchOptions& options);

} // namespace ductl::engine
