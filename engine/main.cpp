// duck-engine: the inference server on the host, and a magnifying glass for models.
#include "engine/commands/commands.hpp"
#include "inventory/error_json.hpp"
#include "inventory/version.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <system_error>
#include <vector>

namespace {

using namespace ductl;
using engine::Words;

struct Command {
  const char* group; // "", "model" or "bench"
  const char* name;
  ductl::Expected<void> (*run)(Words);
};
constexpr Command kCommands[] = {
    {"", "serve", ductl::engine::run_serve},
    {"", "check", ductl::engine::run_check},
    {"model", "show", ductl::engine::run_show},
    {"model", "tokenize", ductl::engine::run_tokenize},
    {"model", "detokenize", ductl::engine::run_detokenize},
    {"model", "logits", ductl::engine::run_logits},
    {"model", "perplexity", ductl::engine::run_perplexity},
    {"bench", "decode", ductl::engine::run_bench_decode},
    {"bench", "dense", ductl::engine::run_bench_dense},
};

constexpr const char* kHelp = R"(duck-engine: the inference server of a flock. People use `ductl`, which runs it.

  duck-engine serve --state DIR [--ready-fd N]
      Serves what DIR/serving.json says, until SIGTERM.
  duck-engine check --model SOURCE --state DIR [--chat-format F] [--context N] [--api-address A] [--api-port P] [--build B]
      [--ready-fd N]
      What `serve` would refuse of that model and API, found before any duck runs: tensors of the host, tokenizer, chat
      format, context length, API keys of DIR, API port (0 = any).
  duck-engine model show PATH [-o json]
  duck-engine model tokenize PATH [--no-special]      {"text": ...} a line on stdin -> {"ids": [...]}
  duck-engine model detokenize PATH                   {"ids": [...]} a line on stdin -> {"text": ...}
  duck-engine model logits PATH --ids 1,2,3 [--all] (--no-ducks | --state DIR [--hidden f32|bf16]) [--threads N]
  duck-engine model perplexity PATH --text FILE (--no-ducks | --state DIR [--hidden f32|bf16]) [--threads N]
      PATH: a checkpoint's folder, or org/name in the Hugging Face hub cache.
      --no-ducks computes FFNs in process from unquantised weights; --state uses the flock of that state folder.
  duck-engine bench decode --state DIR [--threads N] [--samples N]
  duck-engine bench dense [--samples N] [--set-mib N]
      What the engine on a flock, and the host's own matrix kernels, reach of this machine: JSON. `ductl bench` runs them.
  duck-engine --version
  duck-engine --json-errors COMMAND ...
      An error is also a ductl/error/v1 document on stdout.
)";

constexpr int kExitDone = 0, kExitFailed = 1, kExitUsage = 64;

Expected<void> run(const std::vector<std::string>& words) {
  if (words.empty()) return fail(ErrorCode::kUsage, "a command is missing", "", "`duck-engine --help` shows every command");
  if (words[0] == "--help" || words[0] == "help") {
    fmt::print("{}", kHelp);
    return {};
  }
  if (words[0] == "--version" || words[0] == "version") {
    fmt::print("duck-engine {} ({})\n", ductl::kVersion, ductl::kRevision);
    return {};
  }
  const bool grouped = (words[0] == "model" || words[0] == "bench") && words.size() > 1;
  const std::string group = grouped ? words[0] : "", name = grouped ? words[1] : words[0];
  for (const Command& command : kCommands) {
    if (command.name == name && command.group == group) return command.run(Words(words).subspan(grouped ? 2 : 1));
  }
  return fail(ErrorCode::kUsage, fmt::format("command \"{}\" is not known", grouped ? group + " " + name : name), "",
              "`duck-engine --help` shows every command");
}

Expected<void> run_caught(const std::vector<std::string>& words) {
  try {
    return run(words);
  } catch (const std::system_error& e) { // of a write to stdout: everything else has errors of its own
    return fail(ErrorCode::kOutput, fmt::format("the output could not be written whole: {}", e.code().message()), "stdout",
                "is there room where it goes to?");
  } catch (const std::exception& e) { // no memory, or a fault of ours: never silent
    return fail(ErrorCode::kInternal, e.what(), "", "this is a fault in duck-engine; please report it");
  }
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool json_errors = !words.empty() && words.front() == "--json-errors";
  if (json_errors) words.erase(words.begin());
  Expected<void> done = run_caught(words);
  if (done && (std::fflush(stdout) != 0 || std::ferror(stdout) != 0))
    done = fail(ErrorCode::kOutput, fmt::format("the output could not be written whole: {}", std::strerror(errno)), "stdout",
                "is there room where it goes to?");
  if (done) return kExitDone;
  fmt::print(stderr, "{}\n", done.error().text());
  if (json_errors) fmt::print("{}\n", ductl::errors_text({&done.error(), 1}));
  return done.error().code == ErrorCode::kUsage ? kExitUsage : kExitFailed;
}
