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
      logits_((tools.speculate ? 2u : 1u) * static_cast<std::size_t>(tools.vocab)) {
  history_.reserve(request.prompt.size() + static_cast<std::size_t>(output_tokens_max));
}

Expected<GenerateResult> Generation::run() {
  started_ = token_started_ = Clock::now();
  result_.stats.input_tokens = static_cast<int>(request_.prompt.size());
  auto step = prefill();
  if (!step) return tl::unexpected(step.error());
  if (*step == Step::Go) *step = emit_next(row(0));
  while (*step == Step::Go) {
    if (cancelled()) {
      end(FinishReason::Cancelled);
      break;
    }
    step = decode();
    if (!step) return tl::unexpected(step.error());
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
  if (speculation_) speculation_->ran(int(tokens.size()));
  return times;
}

Expected<Generation::Step> Generation::prefill() {
  const std::span<const int> prompt = request_.prompt;
  auto done = static_cast<std::size_t>(session_.rewind_to(prompt, tools_.speculate));
  if (tools_.speculate) speculation_.emplace(tools_.forward, session_.cache(), tools_.config);
  result_.stats.cached_tokens = static_cast<int>(done);
  const auto batch_max = static_cast<std::size_t>(tools_.forward.tokens_max());
  while (done < prompt.size()) {
    if (cancelled()) {
      end(FinishReason::Cancelled);
      return Step::End;
    }
    const std::span<const int> batch = prompt.subspan(done, std::min(batch_max, prompt.size() - done));
    if (auto ran = forward(batch); !ran) return tl::unexpected(ran.error());
    if (done + batch.size() == prompt.size()) tools_.forward.attention().logits(0, static_cast<int>(batch.size()) - 1, 1, row(0));
    if (speculation_) // the row of the prompt's last token waits for the answer's first
      if (auto ran = follow(prompt.subspan(done + 1, std::min(batch.size(), prompt.size() - done - 1))); !ran)
        return tl::unexpected(ran.error());
    done += batch.size();
  }
  return Step::Go;
}

// Rows of the MTP layer. One whose sums are beyond every scale costs no answer: from there on nothing is guessed.
Expected<void> Generation::follow(std::span<const int> next_tokens) {
  if (next_tokens.empty()) return {};
  auto times = speculation_->follow(next_tokens);
  if (times) {
    rounds_ += *times;
    return {};
  }
  if (times.error().code != ErrorCode::kSumOverflow) return tl::unexpected(times.error());
  speculation_.reset();
  return {};
}

// A guess at the token behind the last one, drawn as that will be: with the same randomness, so that a sampled answer agrees with
// its guesses as often as their distributions do.
Expected<void> Generation::foresee() {
  if (auto ran = follow(std::span(history_).last(static_cast<std::size_t>(speculation_->waiting()))); !ran) return ran;
  if (!speculation_) return {};
  speculation_->logits(row(0));
  batch_.push_back(sample(request_.sampling, history_, history_.size(), row(0), tools_.vocab_used));
  ++result_.stats.drafted_tokens;
  return {};
}

// The last token and, where there is one, the guess behind it. A guess may be such that its sums are beyond every scale: the
// token alone then says what it would have said without.
Expected<void> Generation::run_batch() {
  auto ran = forward(batch_);
  if (!ran && batch_.size() == 2 && ran.error().code == ErrorCode::kSumOverflow) {
    batch_.pop_back();
    ran = forward(batch_);
  }
  if (!ran) return tl::unexpected(ran.error());
  return {};
}

// One batch. What it says about the next token is emitted; where that is the guess, what it says about the one after it as well.
Expected<Generation::Step> Generation::decode() {
  batch_.assign(1, history_.back());
  const bool two_more = static_cast<int>(result_.tokens.size()) + 1 < output_tokens_max_; // and so there is room for two
  if (speculation_ && two_more)
    if (auto ran = foresee(); !ran) return tl::unexpected(ran.error());
  if (auto ran = run_batch(); !ran) return tl::unexpected(ran.error());
  const auto rows = static_cast<int>(batch_.size());
  tools_.forward.attention().logits(0, 0, rows, logits_);
  if (rows == 1) return emit_next(row(0));
  const int draft = batch_.back();
  Step step = emit_next(row(0), draft);
  if (draft != history_.back()) {
    KvCache& cache = session_.cache();
    cache.truncate(cache.length() - 1);
    session_.follow_cache();
    speculation_->took_back();
    return step;
  }
  ++result_.stats.accepted_tokens;
  if (step == Step::Go) step = emit_next(row(1));
  return step;
}

// Samples, shows the token, and says whether that was the last one.
Generation::Step Generation::emit_next(std::span<float> logits, int draft) {
  const int position = static_cast<int>(history_.size());
  const int token = sample(request_.sampling, history_, static_cast<std::uint64_t>(position), logits, tools_.vocab_used);
  const Instant now = Clock::now();
  if (result_.tokens.empty()) result_.stats.ttft_s = seconds(now - started_);
  if (request_.token_times) {
    const auto total = std::chrono::duration_cast<std::chrono::nanoseconds>(now - token_started_).count();
    result_.stats.tokens.push_back({position, token, total, rounds_, token == draft});
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
