#include "engine/stats/generation_stats.hpp"

#include <fmt/format.h>
#include <iterator>

namespace ductl::engine {

double GenerationStats::tpot_s() const { return output_tokens < 2 ? 0 : (total_s - ttft_s) / (output_tokens - 1); }

double GenerationStats::prefill_tokens_per_s() const { return ttft_s > 0 ? (input_tokens - cached_tokens) / ttft_s : 0; }

double GenerationStats::decode_tokens_per_s() const {
  const double each = tpot_s();
  return each > 0 ? 1 / each : 0;
}

double GenerationStats::acceptance() const {
  return drafted_tokens > 0 ? static_cast<double>(accepted_tokens) / drafted_tokens : 0;
}

std::string GenerationStats::line() const {
  std::string text = fmt::format(
      "time {:.2f}s  input_len {}  output_len {}  ttft {:.2f}s  tpot {:.1f}ms  prefill {:.1f} tok/s  decode {:.1f} tok/s",
      total_s, input_tokens, output_tokens, ttft_s, tpot_s() * 1e3, prefill_tokens_per_s(), decode_tokens_per_s());
  if (drafted_tokens > 0)
    text += fmt::format("  accepted {} of {} ({:.1f} %)", accepted_tokens, drafted_tokens, acceptance() * 100);
  return text;
}

std::string GenerationStats::csv() const {
  std::string out = "position,token,total_ns,send_ns,wait_ns,compute_ns,fetch_ns,reduce_ns,accepted\n";
  for (const TokenTimes& t : tokens) {
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{},{},{}\n", t.position, t.token, t.total_ns, t.rounds.send_ns,
                   t.rounds.wait_ns, t.rounds.compute_ns, t.rounds.fetch_ns, t.rounds.reduce_ns, t.accepted ? 1 : 0);
  }
  return out;
}

} // namespace ductl::engine
