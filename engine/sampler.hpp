// From logits to a token. Pure: the same parameters, history, position and logits give the same token.
#pragma once

#include "inventory/error.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ductl::engine {

struct SamplingParams {
  float temperature = 0; // 0 = greedy
  int top_k = 0;         // 0 = all
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1; // over prompt and answer, as in transformers
  std::uint64_t seed = 0;       // randomness is keyed by (seed, position)
};
[[nodiscard]] Expected<void> check(const SamplingParams& params); // finite and in range, else kRequestValue naming the field

// `history`: every token so far (prompt and answer). `position`: the index that the new token will have. `logits` is worked on in
// place. Ids at or above `vocab_used` (padding rows) are never sampled.
[[nodiscard]] int sample(const SamplingParams& params, std::span<const int> history, std::uint64_t position,
                         std::span<float> logits, int vocab_used);

} // namespace ductl::engine
