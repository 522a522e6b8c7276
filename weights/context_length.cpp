#include "weights/context_length.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::weights {
namespace {
constexpr int kDefaultContextMax = 8192;
}

int context_limit(const ModelConfig& config) {
  return config.indexer.heads > 0 ? std::min(config.max_position, config.indexer.topk) : config.max_position;
}

Expected<int> choose_context_length(const ModelConfig& config, int asked) {
  const int limit = context_limit(config);
  if (asked <= 0) return std::min(limit, kDefaultContextMax);
  if (asked <= limit) return asked;
  const bool sparse = limit < config.max_position;
  return fail(
      ErrorCode::kContextLength,
      sparse
          ? fmt::format("a context of {} tokens needs sparse attention, which is not built in: beyond index_topk = {} positions "
                        "dense attention is not what {} computes",
                        asked, limit, config.model_type)
          : fmt::format("a context of {} tokens is beyond the model's max_position_embeddings of {}", asked, limit),
      "engine.context_length", fmt::format("set engine.context_length to at most {}", limit));
}

} // namespace ductl::weights
