#include "engine/session/compute_model.hpp"

#include "agent/client/flock_key.hpp"
#include "agent/client/state_folder.hpp"
#include "engine/attention/cpu_backend.hpp"
#include "engine/moe/host_ffn.hpp"
#include "engine/session/flock_link.hpp"
#include "engine/session/host_memory.hpp"

#include <fmt/format.h>

namespace ductl::engine {
namespace {
constexpr int kBatchTokensMax = 64;
}

Expected<FlockAccess> read_flock_access(const std::filesystem::path& state) {
  const agent::StateFolder folder{state};
  auto serving = agent::load_serving(folder.serving());
  if (!serving) return tl::unexpected(serving.error());
  if (auto checked = check_engine_settings(serving->engine); !checked) return tl::unexpected(checked.error());
  auto key = agent::load_flock_key(folder.key());
  if (!key) return tl::unexpected(key.error());
  return FlockAccess{std::move(*serving), std::move(*key), folder};
}

Expected<std::unique_ptr<ComputeModel>> ComputeModel::open(const ComputeOptions& options) {
  const auto stage = [&](const char* text) {
    if (options.on_stage) options.on_stage(text);
  };
  std::unique_ptr<ComputeModel> model(new ComputeModel);
  stage("opening the checkpoint");
  auto checkpoint = weights::open_checkpoint(options.source);
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  model->checkpoint_ = std::move(*checkpoint);
  const auto context = options.context(model->config());
  if (!context) return tl::unexpected(context.error());
  model->context_ = *context;
  const FfnPlace place = options.flock ? FfnPlace::Ducks : FfnPlace::Host;
  model->index_keys_ =
      options.index_keys.value_or(options.flock ? options.flock->serving.engine.index_keys : inventory::IndexKeys::F32);
  if (auto fits = check_host_memory(*model->checkpoint_, place, *context, model->index_keys_); !fits)
    return tl::unexpected(fits.error());

  stage("preparing attention");
  CpuBackendOptions backend;
  backend.threads = options.threads;
  backend.tokens_max = kBatchTokensMax;
  backend.index_keys = model->index_keys_;
  auto attention = make_cpu_backend(*model->checkpoint_, backend);
  if (!attention) return tl::unexpected(attention.error());
  model->attention_ = std::move(*attention);
  auto router = Router::load(*model->checkpoint_);
  if (!router) return tl::unexpected(router.error());
  model->router_.emplace(std::move(*router));
  if (auto opened = model->open_ffn(options); !opened) return tl::unexpected(opened.error());
  model->forward_.emplace(*model->attention_, *model->ffn_, *model->router_, model->config());
  return model;
}

Expected<void> ComputeModel::open_ffn(const ComputeOptions& options) {
  if (!options.flock) {
    if (auto checked = weights::check_tensors(*checkpoint_); !checked) return checked;
    auto ffn = make_host_ffn(*checkpoint_, options.threads);
    if (!ffn) return tl::unexpected(ffn.error());
    ffn_ = std::move(*ffn);
    return {};
  }
  const agent::Serving& serving = options.flock->serving;
  if (options.on_stage) options.on_stage("reading the manifest");
  auto manifest = weights::load_manifest(serving.manifest);
  if (!manifest) return tl::unexpected(manifest.error());
  manifest_ = std::move(*manifest);
  if (const std::string id = weights::model_id(*checkpoint_, manifest_->format); id != manifest_->model_id) {
    return fail(ErrorCode::kFlockEpoch,
                fmt::format("the flock serves model {}, the checkpoint here is {}", manifest_->model_id, id),
                checkpoint_->folder().string(), "run `ductl up`: it packs and sends the checkpoint as it is now");
  }
  FlockLinkOptions link;
  link.key = options.flock->key;
  link.state = options.flock->state;
  link.session_tag = new_session_tag();
  link.bf16_hidden = options.bf16_hidden.value_or(serving.engine.hidden == inventory::HiddenType::Bf16);
  link.compact_reply = serving.engine.reply == inventory::ReplyType::Compact;
  link.on_stage = options.on_stage;
  auto flock = join_flock(serving, *manifest_, config(), link);
  if (!flock) return tl::unexpected(flock.error());
  flock_ = flock->get();
  ffn_ = std::move(*flock);
  return {};
}

} // namespace ductl::engine
