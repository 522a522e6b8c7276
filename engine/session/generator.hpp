// Generation: prompts to text, over the sessions' KV caches. What the HTTP server and the commands of duck-engine call.
//
// Thread-safe: generate() may be called from many threads; one runs at a time, the others wait in order of arrival (up to
// queue_max, beyond that kQueueFull). A prompt that begins like a kept session's tokens continues its cache.
#pragma once

#include "engine/chat/chat_format.hpp"
#include "engine/sampler.hpp"
#include "engine/session/context_length.hpp"
#include "engine/stats/generation_stats.hpp"

#include <functional>

namespace ductl::engine {

struct GenerateRequest {
  std::vector<int> prompt;
  SamplingParams sampling;
  int output_tokens_max = 0;     // 0 = up to the context
  std::vector<std::string> stop; // strings
  std::vector<int> stop_tokens;
  bool token_times = false;
};
enum class FinishReason { Stop, Length, Cancelled };

struct GenerateResult {
  FinishReason finish = FinishReason::Stop;
  std::vector<int> tokens;
  std::string text;
  GenerationStats stats;
};

struct GenerateCallbacks {
  std::function<void(std::string_view utf8)> on_text; // whole characters only; stop strings never appear
  std::function<bool()> cancelled;                    // asked while waiting, in prefill and before each batch
};

class Generator {
public:
  virtual ~Generator() = default;
  [[nodiscard]] virtual Expected<GenerateResult> generate(const GenerateRequest& request, const GenerateCallbacks& callbacks) = 0;
  [[nodiscard]] virtual const Tokenizer& tokenizer() const = 0;
  [[nodiscard]] virtual const ChatFormat& chat_format() const = 0;
  [[nodiscard]] virtual std::string model_name() const = 0;
  [[nodiscard]] virtual ContextRoom context() const = 0;
  // Set once a duck has died: generate() then fails at once with this error.
  [[nodiscard]] virtual std::optional<Error> broken() const = 0;
};

class Forward;

struct GeneratorOptions {
  std::string model_name;
  int context_length = 0;                         // of every session's cache
  int queue_max = 64;                             // requests that may wait
  int sessions_max = 1;                           // caches that are kept
  int output_tokens_max = 0;                      // when a request names none; 0 = up to the context
  bool speculate = true;                          // with the model's MTP layer, where it has one
  std::function<FlockCounts()> flock_counts = {}; // of the flock that computes FFNs; empty: in process
};
// All references must outlive the generator, and nobody else may use `forward` meanwhile. The first cache is made at once: when
// there is no memory for it, that shows here.
[[nodiscard]] Expected<std::unique_ptr<Generator>> make_generator(Forward& forward, const Tokenizer& tokenizer,
                                                                  const ChatFormat& chat_format,
                                                                  const weights::ModelConfig& config,
                                                                  const GeneratorOptions& options);

} // namespace ductl::engine
