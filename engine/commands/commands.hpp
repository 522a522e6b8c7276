// The commands of duck-engine. Each takes the words behind its name; the program reports its error.
// Data goes to stdout, everything else to stderr.
#pragma once

#include "inventory/error.hpp"

#include <span>
#include <string>

namespace ductl::engine {

using Words = std::span<const std::string>;

[[nodiscard]] Expected<void> run_serve(Words words); // serve --state DIR [--ready-fd N]
// check --model SOURCE --state DIR [--chat-format F] [--context N] [--api-address A] [--api-port P] [--build B] [--ready-fd N]
[[nodiscard]] Expected<void> run_check(Words words);
[[nodiscard]] Expected<void> run_show(Words words);       // model show PATH [-o json]
[[nodiscard]] Expected<void> run_tokenize(Words words);   // model tokenize PATH [--no-special]
[[nodiscard]] Expected<void> run_detokenize(Words words); // model detokenize PATH
[[nodiscard]] Expected<void>
run_logits(Words words); // model logits PATH --ids 1,2,3 [--all] [--no-ducks | --state DIR] [--hidden f32|bf16]
[[nodiscard]] Expected<void>
run_perplexity(Words words); // model perplexity PATH --text FILE [--no-ducks | --state DIR] [--hidden f32|bf16]

[[nodiscard]] Expected<void> run_bench_decode(Words words); // bench decode --state DIR [--threads N] [--samples N]
[[nodiscard]] Expected<void> run_bench_dense(Words words);  // bench dense [--samples N] [--set-mib N]

} // namespace ductl::engine
