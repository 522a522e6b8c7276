#include "weights/checkpoint.hpp"

#include "weights/expert_names.hpp"
#include "weights/hub.hpp"
#include "weights/json_text.hpp"
#include "weights/known_tensors.hpp"
#include "weights/random_checkpoint.hpp"
#include "weights/safetensors.hpp"
#include "weights/slice.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>
#include <xxhash.h>

namespace ductl::weights {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kIndexBytesMax = 64u << 20;
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::size_t kFaultsMax = 20;

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }
bool is_weight(DType type) { return type == DType::F32 || type == DType::F16 || type == DType::Bf16 || type == DType::F8E4M3; }
bool aligned(const std::byte* data, DType type) { return reinterpret_cast<std::uintptr_t>(data) % dtype_bytes(type) == 0; }

struct Located {
  const SafetensorsFile* file = nullptr;
  const TensorEntry* entry = nullptr;
};

class FileCheckpoint final : public Checkpoint {
public:
  [[nodiscard]] const fs::path& folder() const override { return folder_; }
  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
  [[nodiscard]] std::vector<std::string> tensor_names() const override;
  [[nodiscard]] std::optional<TensorView> find(std::string_view name) const override;
  [[nodiscard]] Expected<MatrixView> matrix(std::string_view name, int rows, int columns) const override;
  [[nodiscard]] Expected<std::vector<float>> vector(std::string_view name, int size) const override;

  Expected<void> open(const std::string& source);

private:
  Expected<void> open_single(const fs::path& file);
  Expected<void> open_sharded(const fs::path& index);
  Expected<void> attach_scale(MatrixView& matrix) const;
  void find_identity(const std::string& config_text);
  [[nodiscard]] const Located* locate(std::string_view name) const;
  [[nodiscard]] tl::unexpected<Error> missing(std::string_view name) const;

  fs::path folder_;
  ModelConfig config_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_; // sorted by path
  std::map<std::string, Located, std::less<>> tensors_;
  std::string identity_;
  std::uint64_t bytes_ = 0;
};

Expected<void> FileCheckpoint::open(const std::string& source) {
  auto folder = resolve_checkpoint_folder(source);
  if (!folder) return tl::unexpected(folder.error());
  folder_ = *folder;
  auto config = load_model_config(folder_);
  if (!config) return tl::unexpected(config.error());
  config_ = std::move(*config);
  auto config_text = read_text_file(folder_ / "config.json", kIndexBytesMax);
  if (!config_text) return tl::unexpected(config_text.error());

  std::error_code ignored;
  Expected<void> opened;
  if (fs::exists(folder_ / kSingleFile, ignored)) {
    opened = open_single(folder_ / kSingleFile);
  } else if (fs::exists(folder_ / kIndexFile, ignored)) {
    opened = open_sharded(folder_ / kIndexFile);
  } else {
    return fail(ErrorCode::kCheckpointFile, fmt::format("holds neither {} nor {}", kSingleFile, kIndexFile), folder_.string(),
                "fetch the weights as safetensors (other formats, such as .bin and .gguf, are not read)");
  }
  if (!opened) return opened;
  for (const auto& [name, located] : tensors_) bytes_ += located.entry->end - located.entry->begin;
  // Many exports name MTP layers in config.json and leave their weights out.
  if (locate(mtp_projection_name(config_.layers)) == nullptr) config_.mtp_layers = 0;
  find_identity(*config_text);
  return {};
}

Expected<void> FileCheckpoint::open_single(const fs::path& file) {
  auto opened = SafetensorsFile::open(file);
  if (!opened) return tl::unexpected(opened.error());
  files_.push_back(std::move(*opened));
  for (const TensorEntry& entry : files_.front()->header().tensors) tensors_[entry.name] = {files_.front().get(), &entry};
  return {};
}

// The index says which shard holds which tensor. A shard's name never leaves the folder; a shard may hold more than the
// index names (then nobody sees it), but not less.
Expected<void> FileCheckpoint::open_sharded(const fs::path& index) {
  auto text = read_text_file(index, kIndexBytesMax);
  if (!text) return tl::unexpected(text.error());
  const auto json = parse_json_object(*text, 8, ErrorCode::kCheckpointFile, index.string());
  if (!json) return tl::unexpected(json.error());
  const auto map = json->find("weight_map");
  if (map == json->end() || !map->is_object() || map->empty()) {
    return fail(ErrorCode::kCheckpointFile, "has no weight_map", index.string(), "fetch the index again");
  }
  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [name, shard] : map->items()) {
    const std::string file = shard.is_string() ? shard.get<std::string>() : std::string();
    if (file.empty() || file.front() == '.' || file.find('/') != std::string::npos || file.find('\0') != std::string::npos) {
      return fail(ErrorCode::kCheckpointFile, fmt::format("weight_map gives no plain file name for \"{}\"", name), index.string(),
                  "fetch the index again");
    }
    shards.emplace(file, nullptr);
  }
  for (auto& [file, shard] : shards) {
    auto opened = SafetensorsFile::open(folder_ / file);
    if (!opened) return tl::unexpected(opened.error());
    shard = files_.emplace_back(std::move(*opened)).get();
  }
  for (const auto& [name, shard] : map->items()) {
    const SafetensorsFile* file = shards.at(shard.get_ref<const std::string&>());
    const auto& entries = file->header().tensors;
    const auto it = std::lower_bound(entries.begin(), entries.end(), name,
                                     [](const TensorEntry& e, const std::string& n) { return e.name < n; });
    if (it == entries.end() || it->name != name) {
      return fail(ErrorCode::kCheckpointTensor,
                  fmt::format("tensor \"{}\" should be in this file by the index, but is not", name), file->path().string(),
                  "fetch the shard and the index again; they belong to different versions");
    }
    tensors_[name] = {file, &*it};
  }
  return {};
}

// Cheap, and changes whenever the contents do (short of someone who keeps size and time of modification): the bytes of
// all tensors are hundreds of gigabytes.
void FileCheckpoint::find_identity(const std::string& config_text) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  const auto add = [&](const void* data, std::size_t size) {
    XXH3_128bits_update(state, &size, sizeof size);
    XXH3_128bits_update(state, data, size);
  };
  add(config_text.data(), config_text.size());
  for (const auto& file : files_) {
    const std::string name = file->path().filename().string();
    const std::uint64_t size = file->bytes().size();
    const std::int64_t modified = file->modified_ns();
    add(name.data(), name.size());
    add(&size, sizeof size);
    add(&modified, sizeof modified);
    add(file->bytes().data(), file->header().data_begin);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  identity_ = fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::vector<std::string> FileCheckpoint::tensor_names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, located] : tensors_) names.push_back(name);
  return names;
}

const Located* FileCheckpoint::locate(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

std::optional<TensorView> FileCheckpoint::find(std::string_view name) const {
  const Located* located = locate(name);
  if (located == nullptr) return std::nullopt;
  return located->file->view(*located->entry);
}

tl::unexpected<Error> FileCheckpoint::missing(std::string_view name) const {
  return fail(ErrorCode::kCheckpointTensor, fmt::format("tensor \"{}\" is missing", name), folder_.string(),
              "the checkpoint is incomplete, or its config.json describes another model: fetch it again");
}

Expected<MatrixView> FileCheckpoint::matrix(std::string_view name, int rows, int columns) const {
  const Located* located = locate(name);
  if (located == nullptr) return missing(name);
  const TensorEntry& entry = *located->entry;
  const std::string place = located->file->path().string();
  const char* next =
      "config.json and the weights belong to different models, or the export is one that is not supported (docs/models.md)";
  if (!is_weight(entry.type)) {
    return fail(ErrorCode::kCheckpointTensor,
                fmt::format("tensor \"{}\" has type {}; expected BF16, F16, F32 or F8_E4M3", name, entry.type_name), place, next);
  }
  if (entry.shape != std::vector<std::int64_t>{rows, columns}) {
    return fail(ErrorCode::kCheckpointTensor,
                fmt::format("tensor \"{}\" has shape {}; expected [{}, {}]", name, shape_text(entry.shape), rows, columns), place,
                next);
  }
  MatrixView view{entry.name, entry.type, rows, columns, located->file->bytes().data() + entry.begin, nullptr, DType::F32};
  if (!aligned(view.data, view.type)) {
    return fail(ErrorCode::kCheckpointTensor,
                fmt::format("tensor \"{}\" starts at byte {}, which is no multiple of its element's {} bytes", name, entry.begin,
                            dtype_bytes(view.type)),
                place, "write the file again with the safetensors library, which aligns tensors");
  }
  if (view.type == DType::F8E4M3) {
    if (auto attached = attach_scale(view); !attached) return tl::unexpected(attached.error());
  }
  return view;
}

Expected<void> FileCheckpoint::attach_scale(MatrixView& matrix) const {
  const std::string name = matrix.name + "_scale_inv";
  const Located* located = locate(name);
  if (located == nullptr) {
    return fail(ErrorCode::kCheckpointTensor,
                fmt::format("tensor \"{}\" is F8_E4M3, but its block scales \"{}\" are missing", matrix.name, name),
                folder_.string(),
                "fp8 weights must carry 128x128 block scales (weight_scale_inv); exports with other scales are not supported");
  }
  const TensorEntry& entry = *located->entry;
  const std::vector<std::int64_t> expected{(matrix.rows + kScaleBlock - 1) / kScaleBlock,
                                           (matrix.columns + kScaleBlock - 1) / kScaleBlock};
  const bool fine = (entry.type == DType::F32 || entry.type == DType::Bf16) && entry.shape == expected;
  matrix.scale = located->file->bytes().data() + entry.begin;
  matrix.scale_type = entry.type;
  if (fine && aligned(matrix.scale, matrix.scale_type)) return {};
  return fail(ErrorCode::kCheckpointTensor,
              fine ? fmt::format("block scales \"{}\" start at an odd byte", name)
                   : fmt::format("block scales \"{}\" are {} {}; expected F32 or BF16 {}", name, entry.type_name,
                                 shape_text(entry.shape), shape_text(expected)),
              located->file->path().string(), "fp8 weights must carry one scale for each 128x128 block");
}

Expected<std::vector<float>> FileCheckpoint::vector(std::string_view name, int size) const {
  const Located* located = locate(name);
  if (located == nullptr) return missing(name);
  const TensorEntry& entry = *located->entry;
  const bool type_fine = entry.type == DType::F32 || entry.type == DType::F16 || entry.type == DType::Bf16;
  if (!type_fine || entry.shape != std::vector<std::int64_t>{size}) {
    return fail(ErrorCode::kCheckpointTensor,
                fmt::format("tensor \"{}\" is {} {}; expected F32, F16 or BF16 [{}]", name, entry.type_name,
                            shape_text(entry.shape), size),
                located->file->path().string(), "config.json and the weights belong to different models");
  }
  const std::byte* data = located->file->bytes().data() + entry.begin;
  std::vector<float> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element_value(entry.type, data + i * dtype_bytes(entry.type));
  return values;
}

} // namespace

Expected<std::unique_ptr<Checkpoint>> open_checkpoint(const std::string& source) {
  if (is_random_source(source)) return open_random_checkpoint(source);
  auto checkpoint = std::make_unique<FileCheckpoint>();
  if (auto opened = checkpoint->open(source); !opened) return tl::unexpected(opened.error());
  return checkpoint;
}

Expected<ExpertWeights> expert_weights(const Checkpoint& checkpoint, int layer, int expert) {
  const ModelConfig& config = checkpoint.config();
  if (is_moe_layer(config, layer) && checkpoint.find(fused_experts_name(layer))) {
    return fail(ErrorCode::kCheckpointTensor, fmt::format("\"{}\" holds all experts in one tensor", fused_experts_name(layer)),
                checkpoint.folder().string(), "use an export with one tensor an expert (mlp.experts.0.gate_proj.weight, ...)");
  }
  const ExpertNames names = expert_names(config, layer, expert);
  const int channels = expert_channels(config, layer, expert);
  auto gate = checkpoint.matrix(names.gate, channels, config.hidden);
  if (!gate) return tl::unexpected(gate.error());
  auto up = checkpoint.matrix(names.up, channels, config.hidden);
  if (!up) return tl::unexpected(up.error());
  auto down = checkpoint.matrix(names.down, config.hidden, channels);
  if (!down) return tl::unexpected(down.error());
  return ExpertWeights{*gate, *up, *down};
}

namespace {

void add_ffn_faults(const Checkpoint& checkpoint, std::vector<Error>& faults) {
  const ModelConfig& config = checkpoint.config();
  for (int layer = 0; layer < decoder_layers(config) && faults.size() < kFaultsMax; ++layer) {
    for (int expert = 0; expert < expert_count(config, layer) && faults.size() < kFaultsMax; ++expert) {
      auto weights = expert_weights(checkpoint, layer, expert);
      if (weights) continue;
      faults.push_back(std::move(weights.error()));
      if (is_moe_layer(config, layer) && checkpoint.find(fused_experts_name(layer))) break; // one word a layer is enough
    }
  }
}

void add_unknown_tensors(const Checkpoint& checkpoint, std::vector<Error>& faults) {
  for (const std::string& name : checkpoint.tensor_names()) {
    if (is_known_tensor(checkpoint.config(), name) || faults.size() >= kFaultsMax) continue;
    faults.push_back({ErrorCode::kCheckpointTensor,
                      fmt::format("tensor \"{}\" is no part of a {} model", name, checkpoint.config().model_type),
                      checkpoint.folder().string(),
                      "this is another architecture or an export that is not supported (docs/models.md lists what is read)",
                      {}});
  }
}

Expected<void> one_error(const std::vector<Error>& faults) {
  if (faults.empty()) return {};
  Error error = faults.front();
  for (std::size_t i = 1; i < faults.size(); ++i) error.message += "; " + faults[i].message;
  if (faults.size() == kFaultsMax) error.message += "; and maybe more";
  return tl::unexpected(std::move(error));
}

} // namespace

Expected<void> check_ffn_tensors(const Checkpoint& checkpoint) {
  std::vector<Error> faults;
  add_ffn_faults(checkpoint, faults);
  return one_error(faults);
}

Expected<void> check_tensors(const Checkpoint& checkpoint) {
  std::vector<Error> faults;
  add_ffn_faults(checkpoint, faults);
  add_unknown_tensors(checkpoint, faults); // behind those that say more
  return one_error(faults);
}

} // namespace ductl::weights
