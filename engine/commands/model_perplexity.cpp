#include "engine/commands/commands.hpp"
#include "engine/commands/model_source.hpp"
#include "engine/commands/score.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

namespace ductl::engine {
namespace {

constexpr int kWindowTokensMax = 1024; // less where the model's context is shorter

struct Score {
  long tokens = 0;
  double nll = 0;
};

Expected<std::string> read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.good() && !in.eof())
    return fail(ErrorCode::kRequestValue, "the text cannot be read", file, "check the file's path and rights");
  if (text.empty()) return fail(ErrorCode::kRequestValue, "the text is empty or cannot be read", file, "give a UTF-8 text");
  return text;
}

// Adds the score of every token of the window but its first, which nothing comes before.
Expected<void> score_window(ComputeModel& model, KvCache& cache, std::span<const int> window, std::span<float> logits,
                            Score& score, const std::function<void(std::size_t done)>& on_progress) {
  Forward& forward = model.forward();
  cache.truncate(0);
  const auto vocab = static_cast<std::size_t>(model.config().vocab);
  const auto batch_max = static_cast<std::size_t>(forward.tokens_max());
  for (std::size_t begin = 0; begin + 1 < window.size(); begin += batch_max) {
    const std::size_t count = std::min(window.size() - 1 - begin, batch_max); // the last token only has to be predicted
    const auto ran = forward.run(cache, window.subspan(begin, count));
    if (!ran) return tl::unexpected(ran.error());
    forward.attention().logits(0, 0, static_cast<int>(count), logits.first(count * vocab));
    for (std::size_t i = 0; i < count; ++i) {
      score.nll += negative_log_likelihood(logits.subspan(i * vocab, vocab), window[begin + i + 1]);
      ++score.tokens;
    }
    on_progress(begin + count);
  }
  return {};
}

Expected<Score> score_text(ComputeModel& model, std::span<const int> ids, ProgressLine& progress) {
  auto cache = model.forward().attention().make_cache(model.context());
  if (!cache) return tl::unexpected(cache.error());
  std::vector<float> logits(static_cast<std::size_t>(model.forward().tokens_max()) *
                            static_cast<std::size_t>(model.config().vocab));
  Score score;
  const auto window_tokens = static_cast<std::size_t>(model.context());
  for (std::size_t begin = 0; begin < ids.size(); begin += window_tokens) {
    const auto window = ids.subspan(begin, std::min(window_tokens, ids.size() - begin));
    const auto on_progress = [&](std::size_t done) {
      progress.show("tokens", static_cast<long>(begin + done), static_cast<long>(ids.size()));
    };
    if (auto scored = score_window(model, **cache, window, logits, score, on_progress); !scored)
      return tl::unexpected(scored.error());
  }
  if (!std::isfinite(score.nll)) {
    return fail(ErrorCode::kWeightNotFinite, "the logits are not all finite", "", "check where the checkpoint came from");
  }
  return score;
}

Expected<std::vector<int>> encode(const ComputeModel& model, const std::string& text, const std::string& file) {
  auto tokenizer = load_tokenizer(model.checkpoint().folder());
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  std::vector<int> ids = (*tokenizer)->encode(text, SpecialTokens::Match);
  if (ids.size() < 2)
    return fail(ErrorCode::kRequestValue, "the text has fewer than two tokens: there is nothing to predict", file,
                "give a longer text");
  const auto beyond = std::find_if(ids.begin(), ids.end(), [&](int id) { return id >= model.config().vocab; });
  if (beyond == ids.end()) return ids;
  return fail(ErrorCode::kTokenizer,
              fmt::format("the tokenizer gives id {}, the model's vocabulary has {}", *beyond, model.config().vocab),
              model.checkpoint().folder().string(), "tokenizer.json and config.json belong to different models");
}

} // namespace

Expected<void> run_perplexity(Words words) {
  const auto specs = with_source_options({{"--text", true}});
  const auto arguments = Arguments::parse(words, specs, 1);
  if (!arguments) return tl::unexpected(arguments.error());
  const auto file = arguments->require("--text");
  if (!file) return tl::unexpected(file.error());
  const auto text = read_text(*file);
  if (!text) return tl::unexpected(text.error());
  ProgressLine progress(Clock::now());
  auto model = open_model(*arguments, progress, [](const weights::ModelConfig& config) -> Expected<int> {
    return std::min(kWindowTokensMax, config.max_position);
  });
  if (!model) return tl::unexpected(model.error());
  const auto ids = encode(**model, *text, *file);
  if (!ids) return tl::unexpected(ids.error());
  const auto score = score_text(**model, *ids, progress);
  if (!score) return tl::unexpected(score.error());
  fmt::print("{{\"schema\":\"ductl/perplexity/v1\",\"tokens\":{},\"nll\":{:.9g},\"perplexity\":{:.9g}}}\n", score->tokens,
             score->nll, std::exp(score->nll / static_cast<double>(score->tokens)));
  return {};
}

} // namespace ductl::engine
