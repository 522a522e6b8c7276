#include "engine/session/context_length.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::engine {
namespace {
constexpr int kDefaultContextMax = 8192;
}

int context_limit(const weights::ModelConfig& config) {
  return config.indexer.heads > 0 ? std::min(config.max_position, config.indexer.topk) : config.max_position;
}

Expected<int> choose_context_length(const weights::ModelConfig& config, int asked) {
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

Expected<int> output_budget(int context, int prompt_tokens, int asked) {
  const int room = context - prompt_tokens;
  if (room < 1) {
    return fail(ErrorCode::kContextLength,
                fmt::format("the prompt has {} tokens; the context holds {}, answer included", prompt_tokens, context), "",
                "shorten the prompt or begin a new conversation, or raise engine.context_length");
  }
  if (asked > room) {
    return fail(ErrorCode::kContextLength,
                fmt::format("the prompt has {} tokens and {} more are asked for: {} in all; the context holds {}", prompt_tokens,
                            asked, static_cast<long long>(prompt_tokens) + asked, context),
                "", fmt::format("ask for at most {} tokens, shorten the prompt, or raise engine.context_length", room));
  }
  return asked > 0 ? asked : room;
}

} // namespace ductl::engine
