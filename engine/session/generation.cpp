#include "engine/session/generation.hpp"

#include <algorithm>

namespace ductl::engine {
namespace {

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

} // namespace

Generation::Generation(const GenerationTools& tools, Session& session, const GenerateRequest& request,
                       const GenerateCallbacks& callbacks, int output_tokens_max)
    : tools_(tools),
      session_(session),
      request_(request),
      callbacks_(callbacks),
      output_tokens_max_(output_tokens_max),
      stop_(request.stop),
      history_(request.prompt),
      logits_(static_cast<std::size_t>(tools.vocab)) {
  history_.reserve(request.prompt.size() + static_cast<std::size_t>(output_tokens_max));
}

Expected<GenerateResult> Generation::run() {
  started_ = token_started_ = Clock::now();
  result_.stats.input_tokens = static_cast<int>(request_.prompt.size());
  auto step = prefill();
  if (!step) return tl::unexpected(step.error());
  while (*step == Step::Go) {
    *step = emit_next();
    if (*step == Step::End) break;
    if (cancelled()) {
      end(FinishReason::Cancelled);
      break;
    }
    if (auto ran = forward(std::span(history_).last(1)); !ran) return tl::unexpected(ran.error());
    tools_.forward.attention().logits(0, 0, 1, logits_);
  }
  result_.stats.output_tokens = static_cast<int>(result_.tokens.size());
  result_.stats.total_s = seconds(Clock::now() - started_);
  return std::move(result_);
}

Expected<RoundTimes> Generation::forward(std::span<const int> tokens) {
  auto times = tools_.forward.run(session_.cache(), tokens);
  if (!times) {
    session_.follow_cache();
    return times;
  }
  session_.ran(tokens);
  rounds_ += *times;
  return times;
}

Expected<Generation::Step> Generation::prefill() {
  const std::span<const int> prompt = request_.prompt;
  std::size_t done = static_cast<std::size_t>(session_.rewind_to(prompt));
  result_.stats.cached_tokens = static_cast<int>(done);
  const auto batch_max = static_cast<std::size_t>(tools_.forward.tokens_max());
  while (done < prompt.size()) {
    if (cancelled()) {
      end(FinishReason::Cancelled);
      return Step::End;
    }
    const std::span<const int> batch = prompt.subspan(done, std::min(batch_max, prompt.size() - done));
    if (auto ran = forward(batch); !ran) return tl::unexpected(ran.error());
    done += batch.size();
    if (done == prompt.size()) tools_.forward.attention().logits(0, static_cast<int>(batch.size()) - 1, 1, logits_);
  }
  return Step::Go;
}

// Samples from logits_, shows the token, and says whether that was the last one.
Generation::Step Generation::emit_next() {
  const int position = static_cast<int>(history_.size());
  const int token = sample(request_.sampling, history_, static_cast<std::uint64_t>(position), logits_, tools_.vocab_used);
  const Instant now = Clock::now();
  if (result_.tokens.empty()) result_.stats.ttft_s = seconds(now - started_);
  if (request_.token_times) {
    const auto total = std::chrono::duration_cast<std::chrono::nanoseconds>(now - token_started_).count();
    result_.stats.tokens.push_back({position, token, total, rounds_});
  }
  token_started_ = now;
  rounds_ = {};
  result_.tokens.push_back(token);
  history_.push_back(token);
  return show(token);
}

Generation::Step Generation::show(int token) {
  if (std::find(request_.stop_tokens.begin(), request_.stop_tokens.end(), token) != request_.stop_tokens.end()) {
    end(FinishReason::Stop);
    return Step::End;
  }
  if (!tools_.tokenizer.is_special(token)) { // a marker in the middle of an answer is no text
    const StopMatcher::Result found = stop_.push(utf8_.push(tools_.tokenizer.bytes(token)));
    show_text(found.text);
    if (found.stopped) {
      result_.finish = FinishReason::Stop; // nothing is held that may be shown
      return Step::End;
    }
  }
  if (static_cast<int>(result_.tokens.size()) < output_tokens_max_) return Step::Go;
  end(FinishReason::Length);
  return Step::End;
}

void Generation::show_text(std::string_view text) {
  if (text.empty()) return;
  result_.text += text;
  if (callbacks_.on_text) callbacks_.on_text(text);
}

// What is held back becomes text after all: no stop string, no further byte can come. Its last byte may yet complete one.
void Generation::end(FinishReason reason) {
  const StopMatcher::Result found = stop_.push(utf8_.flush());
  show_text(found.text);
  if (!found.stopped) show_text(stop_.flush());
  result_.finish = found.stopped ? FinishReason::Stop : reason;
}

} // namespace ductl::engine
