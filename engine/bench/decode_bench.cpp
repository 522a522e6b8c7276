#include "engine/bench/decode_bench.hpp"

#include "agent/bench/all_core_stream.hpp"
#include "engine/session/host_memory.hpp"
#include "inventory/clock.hpp"
#include "weights/budget.hpp"
#include "weights/slice.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

namespace ductl::engine {
namespace {

using nlohmann::ordered_json;

constexpr int kPromptTokens = 128, kWarmTokens = 4, kSampleTokens = 16;

double seconds_since(Instant start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double seconds_of(const RoundTimes& times) {
  return 1e-9 * static_cast<double>(times.send_ns + times.wait_ns + times.compute_ns + times.fetch_ns + times.reduce_ns);
}

// One sequence that is prefilled and decoded again and again.
class Sequence {
public:
  Sequence(ComputeModel& model, std::unique_ptr<KvCache> cache)
      : model_(model), cache_(std::move(cache)), logits_(static_cast<std::size_t>(model.config().vocab)) {
    std::mt19937 random(5);
    prompt_.resize(static_cast<std::size_t>(prompt_tokens(model.config())));
    for (int& token : prompt_) token = static_cast<int>(random() % static_cast<unsigned>(model.config().vocab));
  }

  static int prompt_tokens(const weights::ModelConfig& config) {
    return std::min(kPromptTokens, config.max_position - kWarmTokens - kSampleTokens);
  }

  Expected<RoundTimes> prefill() {
    Forward& forward = model_.forward();
    const auto batch = static_cast<std::size_t>(forward.tokens_max());
    RoundTimes total;
    cache_->truncate(0);
    for (std::size_t begin = 0; begin < prompt_.size(); begin += batch) {
      const std::size_t count = std::min(batch, prompt_.size() - begin);
      const auto times = forward.run(*cache_, std::span(prompt_).subspan(begin, count));
      if (!times) return times;
      total += *times;
      last_row_ = static_cast<int>(count) - 1;
    }
    return choose(total);
  }

  Expected<RoundTimes> decode(int tokens) {
    RoundTimes total;
    for (int i = 0; i < tokens; ++i) {
      const auto times = model_.forward().run(*cache_, {&next_, 1});
      if (!times) return times;
      total += *times;
      last_row_ = 0;
      if (auto chosen = choose(total); !chosen) return chosen;
    }
    return total;
  }

  [[nodiscard]] std::size_t prompt_size() const { return prompt_.size(); }

private:
  // The likeliest token is what comes next.
  Expected<RoundTimes> choose(const RoundTimes& times) {
    model_.forward().attention().logits(0, last_row_, 1, logits_);
    const auto best = std::max_element(logits_.begin(), logits_.end());
    next_ = static_cast<int>(best - logits_.begin());
    if (std::all_of(logits_.begin(), logits_.end(), [](float x) { return std::isfinite(x); })) return times;
    return fail(ErrorCode::kWeightNotFinite, "the logits are not all finite", fmt::format("position {}", cache_->length() - 1),
                "the config describes a model that random weights overflow: its figures would mean nothing");
  }

  ComputeModel& model_;
  std::unique_ptr<KvCache> cache_;
  std::vector<int> prompt_;
  std::vector<float> logits_;
  int next_ = 0, last_row_ = 0;
};

struct Samples {
  std::vector<double> stream, decode_tok_s, prefill_tok_s, ffn_s, host_s, ffn_fraction, host_fraction; // s: of one token
};

Expected<void> take_sample(Sequence& sequence, agent::bench::AllCoreStream& stream, const TokenBytes& bytes, Samples& out) {
  const double gbps = stream.rate();
  Instant start = Clock::now();
  if (const auto times = sequence.prefill(); !times) return tl::unexpected(times.error());
  const double prefill_s = seconds_since(start);
  if (const auto times = sequence.decode(kWarmTokens); !times) return tl::unexpected(times.error());
  start = Clock::now();
  const auto rounds = sequence.decode(kSampleTokens);
  if (!rounds) return tl::unexpected(rounds.error());
  const double token_s = seconds_since(start) / kSampleTokens, ffn_s = seconds_of(*rounds) / kSampleTokens;
  const double host_s = std::max(token_s - ffn_s, 1e-9);
  out.stream.push_back(gbps);
  out.prefill_tok_s.push_back(static_cast<double>(sequence.prompt_size()) / prefill_s);
  out.decode_tok_s.push_back(1 / token_s);
  out.ffn_s.push_back(ffn_s);
  out.host_s.push_back(host_s);
  out.ffn_fraction.push_back(static_cast<double>(bytes.ffn) / ffn_s / gbps);
  out.host_fraction.push_back(static_cast<double>(bytes.host) / host_s / gbps);
  return {};
}

int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

Expected<agent::bench::AllCoreStream> make_stream() {
  const std::uint64_t needed = agent::bench::AllCoreStream::bytes_needed(), available = memory_available_bytes();
  if (available != 0 && needed > available)
    return fail(ErrorCode::kHostMemory, fmt::format("the yardstick needs {} bytes of memory, and {} are free", needed, available),
                "", "cut the model with --layers or --vocab, or end other programs");
  return agent::bench::AllCoreStream::make(cores());
}

} // namespace

int bench_context(const weights::ModelConfig& config) { return Sequence::prompt_tokens(config) + kWarmTokens + kSampleTokens; }

TokenBytes bytes_per_token(const weights::ModelConfig& config) {
  TokenBytes bytes;
  const auto format = config.fp8_blocks ? weights::TileFormat::EightBit : weights::TileFormat::NineBit; // as `auto` chooses
  const std::uint64_t slice = weights::slice_layout(config.hidden, format).bytes;
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool moe = weights::is_moe_layer(config, layer);
    const int shared = weights::shared_expert(config, layer);
    std::uint64_t slices = static_cast<std::uint64_t>(weights::expert_slices(config, layer, 0));
    if (moe) slices *= static_cast<std::uint64_t>(config.moe.experts_per_token);
    if (shared >= 0) slices += static_cast<std::uint64_t>(weights::expert_slices(config, layer, shared));
    bytes.ffn += slices * slice;
  }
  bytes.host = weights::model_sizes(config).host_weight_bytes;
  if (!config.tied_embeddings)
    bytes.host -= static_cast<std::uint64_t>(config.vocab) * static_cast<std::uint64_t>(config.hidden) *
                  static_cast<std::uint64_t>(config.element_bytes);
  return bytes;
}

Expected<ordered_json> bench_decode(ComputeModel& model, const DecodeBenchOptions& options) {
  const weights::ModelConfig& config = model.config();
  auto stream = make_stream();
  if (!stream) return tl::unexpected(stream.error());
  auto cache = model.forward().attention().make_cache(bench_context(config));
  if (!cache) return tl::unexpected(cache.error());
  Sequence sequence(model, std::move(*cache));
  const TokenBytes bytes = bytes_per_token(config);
  Samples samples;
  for (int i = 0; i < options.samples; ++i) {
    if (options.on_progress) options.on_progress("measuring, samples", i, options.samples);
    if (auto taken = take_sample(sequence, *stream, bytes, samples); !taken) return tl::unexpected(taken.error());
  }
  ordered_json out{{"schema", "ductl/bench-decode/v1"},
                   {"cpu", agent::bench::cpu_name()},
                   {"model_type", config.model_type},
                   {"hidden", config.hidden},
                   {"layers", config.layers},
                   {"vocab", config.vocab},
                   {"ducks", options.ducks},
                   {"threads", options.threads > 0 ? options.threads : cores()},
                   {"samples", options.samples},
                   {"prompt_tokens", sequence.prompt_size()},
                   {"stream_gbps", median(samples.stream) / 1e9},
                   {"decode_tok_s", median(samples.decode_tok_s)},
                   {"prefill_tok_s", median(samples.prefill_tok_s)},
                   {"ffn_bytes_per_token", bytes.ffn},
                   {"host_bytes_per_token", bytes.host},
                   {"ffn_ms_per_token", 1e3 * median(samples.ffn_s)},
                   {"host_ms_per_token", 1e3 * median(samples.host_s)},
                   {"ffn_stream_fraction", median(samples.ffn_fraction)},
                   {"host_stream_fraction", median(samples.host_fraction)}};
  if (model.flock() != nullptr) out["rounds_repeated"] = model.flock()->stats().repeats;
  return out;
}

} // namespace ductl::engine
