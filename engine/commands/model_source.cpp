#include "engine/commands/model_source.hpp"

#include <fmt/format.h>

namespace ductl::engine {
namespace {

tl::unexpected<Error> usage(const char* message, const char* next) { return fail(ErrorCode::kUsage, message, "", next); }

} // namespace

std::vector<OptionSpec> with_source_options(std::vector<OptionSpec> own) {
  own.insert(own.end(),
             {{"--no-ducks", false}, {"--state", true}, {"--hidden", true}, {"--index-keys", true}, {"--threads", true}});
  return own;
}

Expected<std::unique_ptr<ComputeModel>> open_model(const Arguments& arguments, ProgressLine& progress,
                                                   const std::function<Expected<int>(const weights::ModelConfig&)>& context) {
  ComputeOptions options;
  options.source = arguments.positional(0);
  options.context = context;
  options.on_stage = [&](const std::string& stage) { progress.show(stage, 0, 0); };
  const auto state = arguments.value("--state");
  if (state.has_value() == arguments.has("--no-ducks")) {
    return usage("say where the FFNs are computed: either --no-ducks or --state DIR",
                 "`ductl model` raises a temporary flock and gives its state folder");
  }
  if (state) {
    auto flock = read_flock_access(*state);
    if (!flock) return tl::unexpected(flock.error());
    options.threads = flock->serving.engine.threads;
    options.flock = std::move(*flock);
  }
  if (const auto hidden = arguments.value("--hidden")) {
    if (!state) return usage("--hidden says how hidden states travel to ducks; there are none", "leave it out, or use ducks");
    if (*hidden != "f32" && *hidden != "bf16") return usage("--hidden is f32 or bf16", "");
    options.bf16_hidden = *hidden == "bf16";
  }
  if (const auto keys = arguments.value("--index-keys")) {
    if (*keys != "f32" && *keys != "fp8") return usage("--index-keys is f32 or fp8", "");
    options.index_keys = *keys == "fp8" ? inventory::IndexKeys::Fp8 : inventory::IndexKeys::F32;
  }
  if (const auto threads = arguments.value("--threads")) {
    const auto count = parse_integer(*threads, 1, 1024, "--threads");
    if (!count) return tl::unexpected(count.error());
    options.threads = *count;
  }
  return ComputeModel::open(options);
}

} // namespace ductl::engine
