#include "engine/commands/arguments.hpp"
#include "engine/commands/commands.hpp"
#include "weights/budget.hpp"
#include "weights/checkpoint.hpp"
#include "weights/context_length.hpp"

#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::engine {
namespace {

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1ull << 30) return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1ull << 30));
  if (bytes >= 1ull << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1ull << 20));
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
}

std::string attention_text(const weights::ModelConfig& c) {
  if (c.mla.kv_lora_rank > 0) {
    return fmt::format("latent, {} heads, latent {} + rope {}, values {}{}", c.heads, c.mla.kv_lora_rank, c.mla.rope_dim,
                       c.mla.v_dim, c.indexer.heads > 0 ? fmt::format("; sparse beyond {} positions", c.indexer.topk) : "");
  }
  return fmt::format("{} heads, {} KV heads, {} wide{}", c.heads, c.kv_heads, c.head_dim,
                     c.qk_norm ? ", queries and keys normed" : "");
}

std::string ffn_text(const weights::ModelConfig& c) {
  if (c.moe.experts == 0) return fmt::format("dense, {} channels", c.intermediate);
  std::string text =
      fmt::format("{} of {} experts a token, {} channels", c.moe.experts_per_token, c.moe.experts, c.moe.intermediate);
  if (c.moe.shared_experts > 0) text += fmt::format("; {} shared", c.moe.shared_experts);
  if (c.moe.first_moe_layer > 0)
    text += fmt::format("; the first {} layers dense, {} channels", c.moe.first_moe_layer, c.intermediate);
  return text;
}

void print_json(const weights::Checkpoint& checkpoint, const weights::ModelSizes& sizes) {
  const weights::ModelConfig& c = checkpoint.config();
  const nlohmann::json json = {{"schema", "ductl/model/v1"},
                               {"folder", checkpoint.folder().string()},
                               {"family", c.model_type},
                               {"layers", c.layers},
                               {"hidden", c.hidden},
                               {"vocab", c.vocab},
                               {"heads", c.heads},
                               {"kv_heads", c.kv_heads},
                               {"head_dim", c.head_dim},
                               {"experts", c.moe.experts},
                               {"experts_per_token", c.moe.experts_per_token},
                               {"parameters", sizes.parameters},
                               {"host_parameters", sizes.host_parameters},
                               {"duck_parameters", sizes.duck_parameters},
                               {"checkpoint_bytes", checkpoint.bytes()},
                               {"host_weight_bytes", sizes.host_weight_bytes},
                               {"duck_bytes", sizes.duck_bytes},
                               {"slices", weights::slice_count(c)},
                               {"kv_bytes_per_token", sizes.kv_bytes_per_token},
                               {"max_position", c.max_position},
                               {"context_limit", weights::context_limit(c)}};
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_table(const weights::Checkpoint& checkpoint, const weights::ModelSizes& sizes) {
  const weights::ModelConfig& c = checkpoint.config();
  const auto row = [](const char* name, const std::string& value) { fmt::print("{:<14}{}\n", name, value); };
  row("folder", checkpoint.folder().string());
  row("family", c.model_type);
  row("parameters",
      fmt::format("{} ({} on the host, {} on the ducks)", sizes.parameters, sizes.host_parameters, sizes.duck_parameters));
  row("layers",
      fmt::format("{}, hidden {}, vocabulary {}{}", c.layers, c.hidden, c.vocab, c.tied_embeddings ? ", embeddings tied" : ""));
  row("attention", attention_text(c));
  row("FFN", ffn_text(c));
  row("checkpoint", fmt::format("{} of {}", size_text(checkpoint.bytes()),
                                c.fp8_blocks           ? "fp8 with 128x128 block scales"
                                : c.element_bytes == 4 ? "float32"
                                                       : "16-bit floats"));
  row("host", fmt::format("{} ({} bytes) of weights", size_text(sizes.host_weight_bytes), sizes.host_weight_bytes));
  row("ducks", fmt::format("{} ({} bytes) in {} slices, all ducks together", size_text(sizes.duck_bytes), sizes.duck_bytes,
                           weights::slice_count(c)));
  row("KV cache", fmt::format("{} bytes a token; {} for {} tokens", sizes.kv_bytes_per_token,
                              size_text(sizes.kv_bytes_per_token * static_cast<std::uint64_t>(weights::context_limit(c))),
                              weights::context_limit(c)));
}

} // namespace

int run_show(Words words) {
  const OptionSpec specs[] = {{"-o", true}, {"--json", false}};
  const auto arguments = Arguments::parse(words, specs, 1);
  if (!arguments) return report(arguments.error());
  const std::string output = arguments->value("-o").value_or(arguments->has("--json") ? "json" : "table");
  if (output != "json" && output != "table") {
    return report({ErrorCode::kUsage, fmt::format("-o {} is not known", output), "", "use -o table or -o json", {}});
  }
  const auto checkpoint = weights::open_checkpoint(arguments->positional(0));
  if (!checkpoint) return report(checkpoint.error());
  if (auto sliceable = weights::check_sliceable((*checkpoint)->config()); !sliceable) return report(sliceable.error());
  const weights::ModelSizes sizes = weights::model_sizes((*checkpoint)->config());
  if (output == "json")
    print_json(**checkpoint, sizes);
  else
    print_table(**checkpoint, sizes);
  return kExitDone;
}

} // namespace ductl::engine
