// A checkpoint opened for reading: config, and tensors by name, memory-mapped in place.
//
// open_checkpoint() accepts a folder with model.safetensors, or with model.safetensors.index.json and its shards, or
// a hub name "org/name" found in the HF cache layout ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub), or a source of
// random weights (random_checkpoint.hpp). Headers are checked whole (bounds, overlaps, holes, overflow, type x shape) before any
// tensor is handed out. Views stay valid as long as the Checkpoint lives. Read-only after opening: any number of threads.
#pragma once

#include "weights/model_config.hpp"
#include "weights/tensor.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ductl::weights {

class Checkpoint {
public:
  virtual ~Checkpoint() = default;
  [[nodiscard]] virtual const std::filesystem::path& folder() const = 0; // where config.json and tokenizer.json are
  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  [[nodiscard]] virtual std::vector<std::string> tensor_names() const = 0; // sorted
  [[nodiscard]] virtual std::optional<TensorView> find(std::string_view name) const = 0;
  // Tensor `name` as a matrix of exactly this shape, F32, F16, BF16 or F8E4M3 (then name + "_scale_inv" must be there,
  // of F32 or BF16 and the right shape). Errors name the tensor, what was found and what was expected.
  [[nodiscard]] virtual Expected<MatrixView> matrix(std::string_view name, int rows, int columns) const = 0;
  // A 1-d tensor of exactly this size, converted to float.
  [[nodiscard]] virtual Expected<std::vector<float>> vector(std::string_view name, int size) const = 0;
  // Hex digest of what identifies the contents cheaply: config text, headers, and each file's size and mtime.
  [[nodiscard]] virtual const std::string& identity() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0; // of all tensor data
};

[[nodiscard]] Expected<std::unique_ptr<Checkpoint>> open_checkpoint(const std::string& source);

// The three matrices of an expert by their checkpoint names (all families; expert numbering of slice.hpp).
struct ExpertWeights {
  MatrixView gate, up, down; // gate and up [channels, hidden], down [hidden, channels]
};
[[nodiscard]] Expected<ExpertWeights> expert_weights(const Checkpoint& checkpoint, int layer, int expert);

// Checks that every FFN tensor is there with the right shape (the engine checks its own). Up to 20 faults in one Error.
[[nodiscard]] Expected<void> check_ffn_tensors(const Checkpoint& checkpoint);
// The same, and that no tensor is there which a model of this family has not (known_tensors.hpp): before anything is sent or
// computed.
[[nodiscard]] Expected<void> check_tensors(const Checkpoint& checkpoint);

} // namespace ductl::weights
