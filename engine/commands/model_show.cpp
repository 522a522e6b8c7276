#include "engine/commands/arguments.hpp"
#include "engine/commands/commands.hpp"
#include "engine/session/host_memory.hpp"
#include "weights/budget.hpp"
#include "weights/context_length.hpp"
#include "weights/hub.hpp"
#include "weights/stored_format.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>

namespace ductl::engine {
namespace {

using weights::HostFfn;
using weights::ModelConfig;
using weights::ModelSizes;

// What is shown. Without weights beside it a config.json still says every size.
struct Shown {
  std::filesystem::path folder;
  ModelConfig config;
  std::optional<std::uint64_t> checkpoint_bytes;
  HostFfn host_ffn = HostFfn::None;
  weights::TileFormat format = weights::TileFormat::NineBit; // of slices, where no inventory says otherwise
  ModelSizes sizes;                                          // all that is loaded
  ModelSizes plain;                                          // without the MTP layer, as models' sizes are published
};

// On a flock.
struct Fit {
  std::string flock;
  weights::Budget budget;
  std::optional<Error> shortage;
  std::vector<Error> not_carried_out; // settings of the inventory for which `ductl up` refuses it
};

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1ull << 30) return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1ull << 30));
  if (bytes >= 1ull << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1ull << 20));
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
}

std::string attention_text(const ModelConfig& c) {
  if (c.mla.kv_lora_rank > 0) {
    return fmt::format("latent, {} heads, latent {} + rope {}, values {}{}", c.heads, c.mla.kv_lora_rank, c.mla.rope_dim,
                       c.mla.v_dim, c.indexer.heads > 0 ? fmt::format("; sparse beyond {} positions", c.indexer.topk) : "");
  }
  return fmt::format("{} heads, {} KV heads, {} wide{}", c.heads, c.kv_heads, c.head_dim,
                     c.qk_norm ? ", queries and keys normed" : "");
}

std::string ffn_text(const ModelConfig& c) {
  if (c.moe.experts == 0) return fmt::format("dense, {} channels", c.intermediate);
  std::string text =
      fmt::format("{} of {} experts a token, {} channels", c.moe.experts_per_token, c.moe.experts, c.moe.intermediate);
  if (c.moe.shared_experts > 0) text += fmt::format("; {} shared", c.moe.shared_experts);
  if (c.moe.first_moe_layer > 0)
    text += fmt::format("; the first {} layers dense, {} channels", c.moe.first_moe_layer, c.intermediate);
  return text;
}

const char* host_ffn_text(HostFfn host_ffn) { return host_ffn == HostFfn::None ? "none" : "dense,shared"; }

std::uint64_t most_needed(const weights::Budget& budget) {
  std::uint64_t most = 0;
  for (const weights::DuckBudget& duck : budget.ducks) most = std::max(most, duck.needed);
  return most;
}

nlohmann::json fit_json(const Fit& fit) {
  const weights::Budget& b = fit.budget;
  nlohmann::json json = {{"name", fit.flock},           {"ducks", b.ducks.size()},
                         {"context", b.context},        {"duck_bytes_each", most_needed(b)},
                         {"host_bytes", b.host_needed}, {"host_bytes_available", b.host_available},
                         {"fits", !fit.shortage}};
  json["each_duck"] = nlohmann::json::array();
  for (const weights::DuckBudget& duck : b.ducks)
    json["each_duck"].push_back({{"name", duck.name}, {"needed", duck.needed}, {"available", duck.available}});
  if (fit.shortage) json["reason"] = fit.shortage->message;
  json["not_carried_out"] = nlohmann::json::array();
  for (const Error& setting : fit.not_carried_out) json["not_carried_out"].push_back(setting.message);
  return json;
}

void print_json(const Shown& shown, const std::optional<Fit>& fit) {
  const ModelConfig& c = shown.config;
  nlohmann::json json = {{"schema", "ductl/model/v1"},
                         {"folder", shown.folder.string()},
                         {"family", c.model_type},
                         {"layers", c.layers},
                         {"mtp_layers", c.mtp_layers},
                         {"hidden", c.hidden},
                         {"vocab", c.vocab},
                         {"heads", c.heads},
                         {"kv_heads", c.kv_heads},
                         {"head_dim", c.head_dim},
                         {"experts", c.moe.experts},
                         {"experts_per_token", c.moe.experts_per_token},
                         {"host_ffn", host_ffn_text(shown.host_ffn)},
                         {"parameters", shown.plain.parameters},
                         {"host_parameters", shown.plain.host_parameters},
                         {"duck_parameters", shown.plain.duck_parameters},
                         {"active_parameters", shown.plain.active_parameters},
                         {"embedding_parameters", shown.plain.embedding_parameters},
                         {"attention_parameters", shown.plain.attention_parameters},
                         {"shared_parameters", shown.plain.shared_parameters},
                         {"mtp_parameters", shown.sizes.parameters - shown.plain.parameters},
                         {"checkpoint_bytes", nullptr},
                         {"host_weight_bytes", shown.sizes.host_weight_bytes},
                         {"duck_bytes", shown.sizes.duck_bytes},
                         {"slice_format", weights::format_name(shown.format)},
                         {"slices", weights::slice_count(c)},
                         {"kv_bytes_per_token", shown.sizes.kv_bytes_per_token},
                         {"max_position", c.max_position}};
  if (shown.checkpoint_bytes) json["checkpoint_bytes"] = *shown.checkpoint_bytes;
  if (fit) json["flock"] = fit_json(*fit);
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void row(const char* name, const std::string& value) { fmt::print("{:<14}{}\n", name, value); }

void print_fit(const Fit& fit, HostFfn host_ffn) {
  const weights::Budget& b = fit.budget;
  const auto of = [](std::uint64_t available) {
    return available == 0 ? std::string() : fmt::format(" of {}", size_text(available));
  };
  row("flock", fmt::format("{}, {} ducks; a context of {} tokens", fit.flock, b.ducks.size(), b.context));
  for (std::size_t i = 0; i < b.ducks.size();) { // neighbours that are alike in one line
    std::size_t end = i + 1;
    const auto alike = [&](const weights::DuckBudget& duck) {
      return duck.needed == b.ducks[i].needed && duck.available == b.ducks[i].available;
    };
    while (end < b.ducks.size() && alike(b.ducks[end])) ++end;
    const std::string names = end - i == 1 ? b.ducks[i].name : fmt::format("{} to {}", b.ducks[i].name, b.ducks[end - 1].name);
    row(i == 0 ? "  each duck" : "", fmt::format("{}{} ({})", size_text(b.ducks[i].needed), of(b.ducks[i].available), names));
    i = end;
  }
  row("  host", fmt::format("{}{}", size_text(b.host_needed), of(b.host_available)));
  if (host_ffn != HostFfn::None) row("", "as the engine runs it: with every FFN on the ducks");
  row("  fits", fit.shortage ? "no: " + fit.shortage->message : "yes");
  if (fit.shortage) row("", fit.shortage->next);
  for (const Error& setting : fit.not_carried_out) row("  note", setting.message + ", and `ductl up` refuses it");
}

void print_table(const Shown& shown, const std::optional<Fit>& fit) {
  const ModelConfig& c = shown.config;
  const ModelSizes& sizes = shown.sizes;
  row("folder", shown.folder.string() + (shown.checkpoint_bytes ? "" : " (config.json alone, no weights)"));
  row("family", c.model_type);
  row("parameters", fmt::format("{} ({} on the host, {} on the ducks)", shown.plain.parameters, shown.plain.host_parameters,
                                shown.plain.duck_parameters));
  if (shown.plain.active_parameters != shown.plain.parameters)
    row("  a token", fmt::format("passes {} of them", shown.plain.active_parameters));
  row("  of these",
      fmt::format("{} embedding and head, {} attention{}", shown.plain.embedding_parameters, shown.plain.attention_parameters,
                  shown.plain.shared_parameters == 0 ? std::string()
                                                     : fmt::format(", {} shared experts", shown.plain.shared_parameters)));
  row("layers",
      fmt::format("{}, hidden {}, vocabulary {}{}", c.layers, c.hidden, c.vocab, c.tied_embeddings ? ", embeddings tied" : ""));
  if (c.mtp_layers > 0)
    row("MTP", fmt::format("one layer more, {} parameters, foresees a token", sizes.parameters - shown.plain.parameters));
  row("attention", attention_text(c));
  row("FFN", ffn_text(c));
  const char* type = c.fp8_blocks ? "fp8 with 128x128 block scales" : c.element_bytes == 4 ? "float32" : "16-bit floats";
  row("checkpoint", shown.checkpoint_bytes ? fmt::format("{} of {}", size_text(*shown.checkpoint_bytes), type) : type);
  row("host", fmt::format("{} ({} bytes) of weights{}", size_text(sizes.host_weight_bytes), sizes.host_weight_bytes,
                          shown.host_ffn == HostFfn::None ? "" : ", with the dense and shared FFNs"));
  row("ducks", fmt::format("{} ({} bytes) in slices of {}, all ducks together", size_text(sizes.duck_bytes), sizes.duck_bytes,
                           weights::format_name(shown.format)));
  row("KV cache", fmt::format("{} bytes a token; {} for {} tokens", sizes.kv_bytes_per_token,
                              size_text(sizes.kv_bytes_per_token * static_cast<std::uint64_t>(c.max_position)), c.max_position));
  if (fit) print_fit(*fit, shown.host_ffn);
}

Expected<Shown> look_at(const std::string& source, HostFfn host_ffn) {
  Shown shown;
  shown.host_ffn = host_ffn;
  const auto folder = weights::resolve_checkpoint_folder(source);
  if (!folder) return tl::unexpected(folder.error());
  shown.folder = *folder;
  std::error_code ignored;
  const bool weights_there = std::filesystem::exists(*folder / "model.safetensors", ignored) ||
                             std::filesystem::exists(*folder / "model.safetensors.index.json", ignored);
  if (weights_there) {
    const auto checkpoint = weights::open_checkpoint(source);
    if (!checkpoint) return tl::unexpected(checkpoint.error());
    shown.config = (*checkpoint)->config();
    shown.checkpoint_bytes = (*checkpoint)->bytes();
    shown.format = weights::choose_format(**checkpoint, "auto").value_or(shown.format); // what is missing is said elsewhere
  } else {
    auto config = weights::load_model_config(*folder);
    if (!config) return tl::unexpected(config.error());
    shown.config = std::move(*config);
    if (shown.config.fp8_blocks) shown.format = weights::TileFormat::EightBit;
  }
  if (auto sliceable = weights::check_sliceable(shown.config); !sliceable) return tl::unexpected(sliceable.error());
  ModelConfig plain = shown.config;
  plain.mtp_layers = 0;
  shown.sizes = weights::model_sizes(shown.config, host_ffn, inventory::IndexKeys::F32, shown.format);
  shown.plain = weights::model_sizes(plain, host_ffn);
  return shown;
}

Expected<Fit> fit_on(const std::string& file, const Shown& shown) {
  const ModelConfig& config = shown.config;
  const auto flock = inventory::load_inventory(file);
  if (!flock) return tl::unexpected(flock.error().errors.front());
  const auto context = weights::choose_context_length(config, flock->engine.context_length);
  if (!context) return tl::unexpected(context.error());
  Fit fit{flock->name,
          weights::flock_budget(config, *context, *flock, memory_available_bytes(),
                                weights::format_named(flock->model.format).value_or(shown.format)),
          {},
          inventory::settings_not_carried_out(*flock)};
  if (const auto fits = weights::check_budget(fit.budget); !fits) fit.shortage = fits.error();
  return fit;
}

} // namespace

Expected<void> run_show(Words words) {
  const OptionSpec specs[] = {{"-o", true}, {"--json", false}, {"--host-ffn", true}, {"--flock", true}};
  const auto arguments = Arguments::parse(words, specs, 1);
  if (!arguments) return tl::unexpected(arguments.error());
  const std::string output = arguments->value("-o").value_or(arguments->has("--json") ? "json" : "table");
  if (output != "json" && output != "table") {
    return fail(ErrorCode::kUsage, fmt::format("-o {} is not known", output), "", "use -o table or -o json");
  }
  const std::string host_ffn = arguments->value("--host-ffn").value_or("none");
  if (host_ffn != "none" && host_ffn != "dense,shared") {
    return fail(ErrorCode::kUsage, fmt::format("--host-ffn {} is not known", host_ffn), "", "use none or dense,shared");
  }
  const auto shown = look_at(arguments->positional(0), host_ffn == "none" ? HostFfn::None : HostFfn::DenseShared);
  if (!shown) return tl::unexpected(shown.error());
  std::optional<Fit> fit;
  if (const auto flock = arguments->value("--flock")) {
    auto found = fit_on(*flock, *shown);
    if (!found) return tl::unexpected(found.error());
    fit = std::move(*found);
  }
  if (output == "json")
    print_json(*shown, fit);
  else
    print_table(*shown, fit);
  return {};
}

} // namespace ductl::engine
