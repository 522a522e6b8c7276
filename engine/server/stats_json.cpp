#include "engine/server/stats_json.hpp"

#include <nlohmann/json.hpp>

namespace ductl::engine {

nlohmann::json stats_json(const GenerationStats& stats) {
  nlohmann::json out = {{"input_tokens", stats.input_tokens},
                        {"cached_tokens", stats.cached_tokens},
                        {"output_tokens", stats.output_tokens},
                        {"total_s", stats.total_s},
                        {"ttft_s", stats.ttft_s},
                        {"tpot_s", stats.tpot_s()},
                        {"prefill_tokens_per_s", stats.prefill_tokens_per_s()},
                        {"decode_tokens_per_s", stats.decode_tokens_per_s()}};
  if (stats.drafted_tokens > 0) {
    out["drafted_tokens"] = stats.drafted_tokens;
    out["accepted_tokens"] = stats.accepted_tokens;
    out["acceptance"] = stats.acceptance();
  }
  if (stats.flock) {
    out["rounds"] = stats.flock->rounds;
    out["repeats"] = stats.flock->repeats;
    out["nacks_sent"] = stats.flock->nacks_sent;
    out["nacks_received"] = stats.flock->nacks_received;
    out["replies"] = stats.flock->compact_replies ? "compact" : "exact";
  }
  return out;
}

} // namespace ductl::engine
