#include "tests/golden/golden_case.hpp"

#include "engine/attention/cpu_backend.hpp"
#include "engine/lanes/forward.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ductl::test {

namespace {

const std::filesystem::path kFolder = std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/golden";

template <class T> T must(Expected<T> value) {
  if (!value) throw std::runtime_error(value.error().text());
  return std::move(*value);
}

int best(const std::vector<float>& row) { return static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin()); }

double top_two_gap(std::vector<float> row) {
  std::partial_sort(row.begin(), row.begin() + 2, row.end(), std::greater<>());
  return row[0] - row[1];
}

} // namespace

std::vector<std::string> golden_case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (std::filesystem::exists(entry.path() / "golden.json")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

GoldenCase load_golden_case(const std::string& name) {
  GoldenCase golden;
  golden.checkpoint = must(weights::open_checkpoint((kFolder / name).string()));
  std::ifstream file(kFolder / name / "golden.json");
  const auto json = nlohmann::json::parse(file); // outlives the loop
  const auto prompts = [&](const char* list) {
    std::vector<GoldenPrompt> out;
    for (const auto& prompt : json.value(list, nlohmann::json::array()))
      out.push_back({prompt.at("ids").get<std::vector<int>>(), prompt.at("positions").get<std::vector<int>>(),
                     prompt.at("logits").get<std::vector<std::vector<float>>>(), prompt.value("stepwise", false),
                     prompt.value("near_tie", false)});
    return out;
  };
  golden.prompts = prompts("prompts");
  golden.drafts = prompts("drafts");
  golden.fp8_keys = prompts("fp8_keys");
  return golden;
}

std::vector<std::vector<float>> run_engine(const weights::Checkpoint& checkpoint, engine::Ffn& ffn, const std::vector<int>& ids,
                                           int chunk, int threads, inventory::IndexKeys index_keys) {
  engine::CpuBackendOptions options;
  options.threads = threads;
  options.index_keys = index_keys;
  const auto backend = must(engine::make_cpu_backend(checkpoint, options));
  const auto router = must(engine::Router::load(checkpoint));
  engine::Forward forward(*backend, ffn, router, checkpoint.config());
  const auto cache = must(backend->make_cache(static_cast<int>(ids.size())));
  const auto vocab = static_cast<std::size_t>(checkpoint.config().vocab);
  std::vector<std::vector<float>> rows;
  const std::span<const int> all(ids);
  for (std::size_t done = 0; done < ids.size();) {
    const auto count = std::min<std::size_t>(
        {static_cast<std::size_t>(chunk), ids.size() - done, static_cast<std::size_t>(forward.tokens_max())});
    must(forward.run(*cache, all.subspan(done, count)));
    std::vector<float> logits(count * vocab);
    backend->logits(0, 0, static_cast<int>(count), logits);
    for (std::size_t i = 0; i < count; ++i) rows.emplace_back(logits.begin() + i * vocab, logits.begin() + (i + 1) * vocab);
    done += count;
  }
  return rows;
}

std::vector<std::vector<float>> run_drafts(const weights::Checkpoint& checkpoint, engine::Ffn& ffn, const std::vector<int>& ids,
                                           int chunk) {
  const auto backend = must(engine::make_cpu_backend(checkpoint, {}));
  const auto router = must(engine::Router::load(checkpoint));
  engine::Forward forward(*backend, ffn, router, checkpoint.config());
  const auto cache = must(backend->make_cache(static_cast<int>(ids.size())));
  const auto width = static_cast<std::size_t>(checkpoint.config().hidden);
  std::vector<std::vector<float>> rows;
  const std::span<const int> all(ids);
  for (std::size_t done = 0; done + 1 < ids.size();) {
    const auto count = std::min<std::size_t>(
        {static_cast<std::size_t>(chunk), ids.size() - 1 - done, static_cast<std::size_t>(forward.tokens_max())});
    must(forward.run(*cache, all.subspan(done, count)));
    std::vector<float> hidden(count * width);
    backend->hidden(0, 0, static_cast<int>(count), hidden);
    must(forward.run_draft(*cache, all.subspan(done + 1, count), hidden));
    for (std::size_t i = 0; i < count; ++i)
      backend->draft_logits(0, static_cast<int>(i), rows.emplace_back(static_cast<std::size_t>(checkpoint.config().vocab)));
    done += count;
  }
  return rows;
}

Deviation compare(const std::vector<std::vector<float>>& engine, const GoldenPrompt& golden, double gap) {
  Deviation deviation;
  for (std::size_t i = 0; i < golden.positions.size(); ++i) {
    const auto& ours = engine.at(golden.positions[i]);
    const auto& reference = golden.logits[i];
    double difference = 0, magnitude = 0;
    for (std::size_t j = 0; j < reference.size(); ++j) {
      const double here = std::abs(static_cast<double>(ours.at(j)) - static_cast<double>(reference[j]));
      if (std::isnan(here) || here > difference) difference = here; // NaN stays
      magnitude = std::max(magnitude, std::abs(static_cast<double>(reference[j])));
    }
    // NaN compares false everywhere: count it as the worst there is.
    const double relative = std::isfinite(difference) ? difference / magnitude : INFINITY;
    deviation.worst = std::max(deviation.worst, relative);
    if (best(ours) != best(reference) && top_two_gap(reference) > gap * magnitude) ++deviation.greedy_wrong;
  }
  return deviation;
}

} // namespace ductl::test
