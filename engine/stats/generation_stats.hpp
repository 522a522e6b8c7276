// What a generation cost, as people and files read it.
#pragma once

#include "engine/moe/ffn.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ductl::engine {

struct TokenTimes { // one row of the per-token CSV
  int position = 0, token = 0;
  std::int64_t total_ns = 0;
  RoundTimes rounds;     // summed over the token's layers
  bool accepted = false; // it had been foreseen; the token behind it came from the same batch
};

// Of the rounds on the ducks. A flock's counters only grow; a generation has the difference.
struct FlockCounts {
  std::uint64_t rounds = 0, repeats = 0; // repeats: fixed-point rungs climbed
  std::uint64_t nacks_sent = 0, nacks_received = 0;
  bool compact_replies = false; // of 15 bits: the same text for one placement of the slices only
};

struct GenerationStats {
  int input_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int drafted_tokens = 0, accepted_tokens = 0; // speculation: guesses, and those that were right
  double total_s = 0, ttft_s = 0;
  std::optional<FlockCounts> flock = {};             // none: FFNs in process
  std::vector<TokenTimes> tokens = {};               // only when asked for
  [[nodiscard]] double tpot_s() const;               // (total - ttft) / (output - 1), 0 below two tokens
  [[nodiscard]] double prefill_tokens_per_s() const; // (input - cached) / ttft
  [[nodiscard]] double decode_tokens_per_s() const;  // 1 / tpot
  [[nodiscard]] double acceptance() const;           // accepted / drafted, 0 without drafts
  // "time 1.93s  input_len 11  output_len 40  ttft 0.21s  tpot 44.1ms  prefill 52.4 tok/s  decode 22.7 tok/s"
  [[nodiscard]] std::string line() const;
  [[nodiscard]] std::string csv() const; // header and one row a token
};

} // namespace ductl::engine
