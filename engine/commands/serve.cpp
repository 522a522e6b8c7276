#include "agent/client/api_keys.hpp"
#include "agent/client/process_log.hpp"
#include "agent/client/state_folder.hpp"
#include "engine/commands/arguments.hpp"
#include "engine/commands/commands.hpp"
#include "engine/commands/ready_pipe.hpp"
#include "engine/commands/stop_signal.hpp"
#include "engine/server/openai_server.hpp"
#include "engine/session/compute_model.hpp"
#include "engine/session/host_memory.hpp"
#include "inventory/version.hpp"
#include "weights/budget.hpp"
#include "weights/context_length.hpp"

#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace ductl::engine {
namespace {

// Everything behind the API, in order of making. `api` answers 503 with the stage until ready().
struct Service {
  std::unique_ptr<OpenAiServer> api;
  std::unique_ptr<ComputeModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatFormat> chat_format;
  std::unique_ptr<Generator> generator;

  Service() = default;
  ~Service() {
    if (api) api->stop(); // no request may run while what it uses goes away
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
};

// "SmolLM2-135M-Instruct" of a folder, "org/name" of the hub.
std::string model_name(const std::string& source) {
  std::error_code ignored;
  const std::filesystem::path path(source);
  if (!std::filesystem::exists(path, ignored)) return source;
  const auto whole = std::filesystem::weakly_canonical(path, ignored);
  return whole.filename().empty() ? source : whole.filename().string();
}

Expected<void> start_api(Service& service, const inventory::Engine& engine, const agent::StateFolder& state) {
  auto keys = agent::load_api_keys(state.api_keys());
  if (!keys) return tl::unexpected(keys.error());
  ApiOptions options;
  options.keys = std::move(*keys);
  options.address = engine.api_address;
  options.port = engine.api_port;
  auto api = OpenAiServer::start(options);
  if (!api) return tl::unexpected(api.error());
  service.api = std::move(*api);
  return {};
}

Expected<void> open_compute(Service& service, const FlockAccess& flock, const std::function<void(const std::string&)>& on_stage) {
  ComputeOptions options;
  options.source = flock.serving.model_source;
  options.flock = flock;
  options.threads = flock.serving.engine.threads;
  options.context = [&](const weights::ModelConfig& config) {
    return weights::choose_context_length(config, flock.serving.engine.context_length);
  };
  options.on_stage = on_stage;
  auto model = ComputeModel::open(options);
  if (!model) return tl::unexpected(model.error());
  service.model = std::move(*model);
  return {};
}

Expected<void> open_text(Service& service, const agent::Serving& serving) {
  auto tokenizer = load_tokenizer(service.model->checkpoint().folder());
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  service.tokenizer = std::move(*tokenizer);
  auto chat_format = choose_chat_format(service.model->config(), *service.tokenizer, serving.chat_format);
  if (!chat_format) return tl::unexpected(chat_format.error());
  service.chat_format = std::move(*chat_format);
  return {};
}

Expected<void> open_generator(Service& service, const agent::Serving& serving) {
  ComputeModel& model = *service.model;
  GeneratorOptions options;
  options.model_name = model_name(serving.model_source);
  options.context_length = model.context();
  options.output_tokens_max = serving.limits.request_tokens_max;
  options.speculate = serving.engine.speculation == inventory::SpeculationKind::Mtp;
  const weights::ModelSizes sizes = weights::model_sizes(model.config(), weights::HostFfn::None, model.index_keys());
  const std::uint64_t cache_bytes = sizes.kv_bytes_per_token * static_cast<std::uint64_t>(model.context());
  const std::uint64_t needed = host_bytes_needed(model.checkpoint(), FfnPlace::Ducks, model.context(), model.index_keys());
  options.sessions_max = sessions_that_fit(memory_available_bytes(), needed, cache_bytes);
  if (const FlockFfn* flock = model.flock()) {
    options.flock_counts = [flock] {
      const FlockStats s = flock->stats();
      return FlockCounts{s.rounds, s.repeats, s.nacks_sent, s.nacks_received, flock->compact_reply()};
    };
  }
  auto generator = make_generator(model.forward(), *service.tokenizer, *service.chat_format, model.config(), options);
  if (!generator) return tl::unexpected(generator.error());
  service.generator = std::move(*generator);
  spdlog::info("model {}: {}, context {}, chat format {}, up to {} sessions kept", options.model_name, model.config().model_type,
               options.context_length, service.chat_format->name(), options.sessions_max);
  if (model.config().indexer.heads > 0)
    spdlog::info("sparse attention beyond {} positions, index keys {}", model.config().indexer.topk,
                 model.index_keys() == inventory::IndexKeys::Fp8 ? "fp8" : "f32");
  if (model.forward().attention().drafts()) spdlog::info("the MTP layer guesses: {}", options.speculate ? "yes" : "no");
  return {};
}

Expected<void> start(Service& service, const std::filesystem::path& state) {
  const auto flock = read_flock_access(state);
  if (!flock) return tl::unexpected(flock.error());
  if (auto api = start_api(service, flock->serving.engine, agent::StateFolder{state}); !api) return api;
  const auto on_stage = [&](const std::string& stage) {
    service.api->set_stage(stage);
    spdlog::info("{}", stage);
  };
  if (auto opened = open_compute(service, *flock, on_stage); !opened) return opened;
  on_stage("reading the tokenizer");
  if (auto opened = open_text(service, flock->serving); !opened) return opened;
  if (auto opened = open_generator(service, flock->serving); !opened) return opened;
  service.api->ready(*service.generator);
  return {};
}

void log_flock(const ComputeModel& model) {
  if (model.flock() == nullptr) return;
  const FlockStats s = model.flock()->stats();
  spdlog::info("rounds {}, repeated at a lower scale {}, NACKs sent {} received {}, soft timeouts {}, frames in {} out {}, "
               "corrupt {} foreign {} duplicate {}",
               s.rounds, s.repeats, s.nacks_sent, s.nacks_received, s.soft_timeouts, s.frames_in, s.frames_out, s.frames_corrupt,
               s.frames_foreign, s.frames_duplicate);
}

Expected<void> serve(const std::filesystem::path& state, ReadyPipe& ready) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(state, ignored)) { // a log there would make it
    const Error error{ErrorCode::kState, "there is no such state folder", state.string(), "run `ductl up`, which makes it", {}};
    ready.say(not_ready_line(error));
    return tl::unexpected(error);
  }
  const auto log = agent::StateFolder{state}.log("duck-engine");
  if (auto started = agent::start_log(log); !started) {
    ready.say(not_ready_line(started.error()));
    return tl::unexpected(started.error());
  }
  spdlog::info("duck-engine {} ({}) starts", kVersion, kRevision);
  Service service;
  if (auto started = start(service, state); !started) {
    spdlog::error("{}", started.error().text());
    ready.say(not_ready_line(started.error()));
    return tl::unexpected(started.error());
  }
  const StopSignal stop;
  spdlog::info("ready on port {}", service.api->port());
  ready.say(ready_line(service.api->port()));
  const int number = stop.wait();
  spdlog::info("{} came: stopping", number == SIGINT ? "SIGINT" : "SIGTERM");
  service.api->stop();
  if (const auto broken = service.generator->broken()) spdlog::error("the flock was broken: {}", broken->text());
  log_flock(*service.model);
  spdlog::info("stopped");
  return {};
}

} // namespace

Expected<void> run_serve(Words words) {
  const OptionSpec specs[] = {{"--state", true}, {"--ready-fd", true}};
  const auto arguments = Arguments::parse(words, specs, 0);
  if (!arguments) return tl::unexpected(arguments.error());
  const auto state = arguments->require("--state");
  if (!state) return tl::unexpected(state.error());
  int descriptor = -1;
  if (const auto text = arguments->value("--ready-fd")) {
    const auto number = parse_integer(*text, 3, 1 << 20, "--ready-fd");
    if (!number) return tl::unexpected(number.error());
    descriptor = *number;
  }
  std::signal(SIGPIPE, SIG_IGN); // a client or a waiter that goes away is no reason to end
  ReadyPipe ready(descriptor);
  return serve(*state, ready);
}

} // namespace ductl::engine
