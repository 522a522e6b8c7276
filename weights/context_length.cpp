#include "weights/context_length.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::weights {
namespace {
constexpr int kDefaultContextMax = 8192;
}

Expected<int> choose_context_length(const ModelConfig& config, int asked) {
  const int limit = config.max_position;
  if (asked <= 0) return std::min(limit, kDefaultContextMax);
  if (asked <= limit) return asked;
  return fail(ErrorCode::kContextLength,
              fmt::format("a context of {} tokens is beyond the model's max_position_embeddings of {}", asked, limit),
              "engine.context_length", fmt::format("set engine.context_length to at most {}", limit));
}

} // namespace ductl::weights
