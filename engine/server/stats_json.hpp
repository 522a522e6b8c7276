// A generation's statistics as the API gives them: the `stats` object of docs/api.md.
#pragma once

#include "engine/stats/generation_stats.hpp"

#include <nlohmann/json_fwd.hpp>

namespace ductl::engine {

[[nodiscard]] nlohmann::json stats_json(const GenerationStats& stats);

} // namespace ductl::engine
