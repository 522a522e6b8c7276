// What `serve` would refuse, found out without a flock: `ductl up` asks before it starts and fills ducks.
#include "agent/client/api_keys.hpp"
#include "agent/client/state_folder.hpp"
#include "engine/attention/cpu_backend.hpp"
#include "engine/chat/chat_format.hpp"
#include "engine/commands/arguments.hpp"
#include "engine/commands/commands.hpp"
#include "engine/commands/ready_pipe.hpp"
#include "engine/moe/router.hpp"
#include "engine/server/openai_server.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "inventory/inventory.hpp"
#include "inventory/version.hpp"
#include "weights/context_length.hpp"

#include <cstdio>
#include <fmt/format.h>
#include <limits>
#include <spdlog/spdlog.h>

namespace ductl::engine {
namespace {

struct CheckOptions {
  std::string model, chat_format;
  agent::StateFolder state;
  int context = 0;
  ApiOptions api;
  int ready_descriptor = -1;
  std::string build = {}; // of the ductl that asks
};

Expected<int> number_or(const Arguments& arguments, const char* name, int low, int high, int otherwise) {
  const auto text = arguments.value(name);
  return text ? parse_integer(*text, low, high, name) : Expected<int>(otherwise);
}

Expected<CheckOptions> read_options(Words words) {
  const OptionSpec specs[] = {{"--model", true},       {"--state", true},    {"--chat-format", true}, {"--context", true},
                              {"--api-address", true}, {"--api-port", true}, {"--build", true},       {"--ready-fd", true}};
  const auto arguments = Arguments::parse(words, specs, 0);
  if (!arguments) return tl::unexpected(arguments.error());
  const auto model = arguments->require("--model"), state = arguments->require("--state");
  if (!model) return tl::unexpected(model.error());
  if (!state) return tl::unexpected(state.error());
  const auto context = number_or(*arguments, "--context", 0, std::numeric_limits<int>::max(), 0);
  if (!context) return tl::unexpected(context.error());
  const auto port = number_or(*arguments, "--api-port", 0, 0xffff, 0);
  if (!port) return tl::unexpected(port.error());
  const auto descriptor = number_or(*arguments, "--ready-fd", 3, 1 << 20, -1);
  if (!descriptor) return tl::unexpected(descriptor.error());
  CheckOptions options{.model = *model,
                       .chat_format = arguments->value("--chat-format").value_or(""),
                       .state = agent::StateFolder{*state},
                       .context = *context,
                       .api = {},
                       .ready_descriptor = *descriptor,
                       .build = arguments->value("--build").value_or(kBuild)};
  options.api.port = static_cast<std::uint16_t>(*port);
  if (const auto text = arguments->value("--api-address")) {
    const auto address = inventory::parse_ipv4(*text);
    if (!address)
      return fail(ErrorCode::kUsage, fmt::format("--api-address is \"{}\", expected an IPv4 address", *text), "",
                  "four numbers from 0 to 255 with . between");
    options.api.address = *address;
  }
  return options;
}

// By doing it: the same refusals as at the start of `serve`, and nothing is left behind.
Expected<void> check_api(const CheckOptions& options) {
  ApiOptions api = options.api;
  auto keys = agent::load_api_keys(options.state.api_keys());
  if (!keys) return tl::unexpected(keys.error());
  api.keys = std::move(*keys);
  const auto server = OpenAiServer::start(api);
  if (!server) return tl::unexpected(server.error());
  return {};
}

// What is cheap to look at first; the backend reads every weight of the host for what is not finite.
Expected<void> check(const CheckOptions& options) {
  if (options.build != kBuild)
    return fail(ErrorCode::kEngineStart, fmt::format("duck-engine is of build {}, ductl of build {}", kBuild, options.build), "",
                "build or install ductl, duck-engine and duck-agent together");
  if (auto api = check_api(options); !api) return api;
  const auto checkpoint = weights::open_checkpoint(options.model);
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  const weights::ModelConfig& config = (*checkpoint)->config();
  const auto context = weights::choose_context_length(config, options.context);
  if (!context) return tl::unexpected(context.error());
  const auto tokenizer = load_tokenizer((*checkpoint)->folder());
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  const auto format = choose_chat_format(config, **tokenizer, options.chat_format);
  if (!format) return tl::unexpected(format.error());
  const auto router = Router::load(**checkpoint);
  if (!router) return tl::unexpected(router.error());
  const auto backend = make_cpu_backend(**checkpoint, {.threads = 0, .tokens_max = 1});
  if (!backend) return tl::unexpected(backend.error());
  return {};
}

} // namespace

Expected<void> run_check(Words words) {
  const auto options = read_options(words);
  if (!options) return tl::unexpected(options.error());
  spdlog::set_level(spdlog::level::warn); // stdout is for data
  ReadyPipe ready(options->ready_descriptor);
  if (auto checked = check(*options); !checked) {
    ready.say(not_ready_line(checked.error()));
    return tl::unexpected(checked.error());
  }
  ready.say(ready_line(options->api.port));
  return {};
}

} // namespace ductl::engine
