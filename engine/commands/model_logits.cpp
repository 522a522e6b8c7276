#include "engine/commands/commands.hpp"
#include "engine/commands/model_source.hpp"
#include "weights/context_length.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ductl::engine {
namespace {

// One row of numbers with 9 significant digits: enough to tell every float from its neighbours.
// `head` stands before the first row, and is printed only once that is known to be sound.
Expected<void> print_row(std::span<const float> row, int position, std::string_view head) {
  if (!std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); })) {
    return fail(ErrorCode::kWeightNotFinite, "the logits are not all finite", fmt::format("position {}", position),
                "the checkpoint holds NaN, infinity or values far beyond what was trained; check where it came from");
  }
  fmt::print("{}[{:.9g}]", head, fmt::join(row, ","));
  return {};
}

Expected<void> print_logits(ComputeModel& model, const std::vector<int>& ids, bool all, ProgressLine& progress) {
  Forward& forward = model.forward();
  auto cache = forward.attention().make_cache(static_cast<int>(ids.size()));
  if (!cache) return tl::unexpected(cache.error());
  const std::size_t last = ids.size() - 1, first_wanted = all ? 0 : last;
  const auto vocab = static_cast<std::size_t>(model.config().vocab);
  const auto batch_max = static_cast<std::size_t>(forward.tokens_max());
  std::vector<float> logits(vocab);
  std::string head = R"({"schema":"ductl/logits/v1","positions":[)";
  for (std::size_t i = first_wanted; i <= last; ++i) head += fmt::format("{}{}", i == first_wanted ? "" : ",", i);
  head += R"(],"logits":[)"; // printed with the first row: before that an error leaves stdout empty
  for (std::size_t begin = 0; begin < ids.size(); begin += batch_max) {
    const std::size_t end = std::min(ids.size(), begin + batch_max);
    const auto ran = forward.run(**cache, std::span(ids).subspan(begin, end - begin));
    if (!ran) return tl::unexpected(ran.error());
    for (std::size_t i = std::max(begin, first_wanted); i < end; ++i) {
      forward.attention().logits(0, static_cast<int>(i - begin), 1, logits);
      const std::string_view before = i == first_wanted ? std::string_view(head) : ",";
      if (auto printed = print_row(logits, static_cast<int>(i), before); !printed) return printed;
    }
    progress.show("tokens", static_cast<long>(end), static_cast<long>(ids.size()));
  }
  fmt::print("]}}\n");
  return {};
}

} // namespace

Expected<void> run_logits(Words words) {
  const auto specs = with_source_options({{"--ids", true}, {"--all", false}});
  const auto arguments = Arguments::parse(words, specs, 1);
  if (!arguments) return tl::unexpected(arguments.error());
  const auto text = arguments->require("--ids");
  if (!text) return tl::unexpected(text.error());
  ProgressLine progress(Clock::now());
  std::vector<int> ids;
  auto model = open_model(*arguments, progress, [&](const weights::ModelConfig& config) -> Expected<int> {
    auto parsed = parse_ids(*text, config.vocab);
    if (!parsed) return tl::unexpected(parsed.error());
    ids = std::move(*parsed);
    auto chosen = weights::choose_context_length(config, static_cast<int>(ids.size()));
    if (chosen) return chosen;
    Error error = std::move(chosen.error()); // the setting that it names has no part in this
    error.place = "--ids";
    error.next = fmt::format("give at most {} ids", config.max_position);
    return tl::unexpected(std::move(error));
  });
  if (!model) return tl::unexpected(model.error());
  const auto printed = print_logits(**model, ids, arguments->has("--all"), progress);
  return printed;
}

} // namespace ductl::engine
