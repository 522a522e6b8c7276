// The commands of duck-engine. Each takes the words behind its name and returns the program's exit status.
// Data goes to stdout, everything else to stderr.
#pragma once

#include "inventory/error.hpp"

#include <span>
#include <string>

namespace ductl::engine {

using Words = std::span<const std::string>;

inline constexpr int kExitDone = 0, kExitFailed = 1, kExitUsage = 64;

[[nodiscard]] int run_serve(Words words); // serve --state DIR [--ready-fd N]
// check --model SOURCE --state DIR [--chat-format F] [--context N] [--api-address A] [--api-port P] [--ready-fd N]
[[nodiscard]] int run_check(Words words);
[[nodiscard]] int run_show(Words words);       // model show PATH [-o json]
[[nodiscard]] int run_tokenize(Words words);   // model tokenize PATH [--no-special]
[[nodiscard]] int run_detokenize(Words words); // model detokenize PATH
[[nodiscard]] int run_logits(Words words); // model logits PATH --ids 1,2,3 [--all] [--no-ducks | --state DIR] [--hidden f32|bf16]
[[nodiscard]] int run_perplexity(Words words); // model perplexity PATH --text FILE [--no-ducks | --state DIR] [--hidden f32|bf16]

// Prints the error to stderr; kExitUsage for kUsage, else kExitFailed.
[[nodiscard]] int report(const Error& error);

} // namespace ductl::engine
