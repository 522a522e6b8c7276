// Small random checkpoints for tests: config.json and model.safetensors of any family, with the sizes a test asks for.
// The same description and seed give the same bytes. Norms and correction biases are random (the usual constant
// initial values hide errors), so are fp8 block scales.
#pragma once

#include "tests/support/files.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ductl::test {

// Tensors in the order of add(), behind one JSON header. Throws std::runtime_error when the file cannot be written.
class SafetensorsWriter {
public:
  // `dtype` as the format spells it: F32, BF16, F16, F8_E4M3, I64, ...
  void add(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
           std::vector<std::byte> data);
  void add_floats(const std::string& name, const std::vector<std::int64_t>& shape, std::span<const float> values);
  void write(const std::filesystem::path& file) const;

private:
  struct Entry {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> data;
  };
  std::vector<Entry> entries_;
};

enum class TinyType { F32, Bf16, F16, F8, F8Bf16Scale }; // of the matrices; fp8: embedding, head, router and norms stay bf16

struct TinyModel {
  std::string model_type = "llama"; // llama, qwen3, qwen3_moe, deepseek_v3, deepseek_v32
  TinyType type = TinyType::Bf16;
  int hidden = 64, layers = 3, vocab = 128;
  int heads = 4, kv_heads = 2, head_dim = 16, intermediate = 96;
  bool tied = false;
  int max_position = 4096;
  double rope_theta = 10000;
  double yarn_factor = 0; // 0 = plain rope; deepseek: with mscale keys, qwen3: without
  int yarn_original = 64;
  // mixture of experts (qwen3_moe, deepseek_*)
  int experts = 8, experts_per_token = 2, moe_intermediate = 32;
  int dense_layers = 1, shared_experts = 1, groups = 4, groups_kept = 2; // deepseek only
  double routed_scale = 2.5;                                             // deepseek only
  // latent attention (deepseek_*); q_lora 0 = plain q_proj
  int q_lora = 32, kv_lora = 32, nope_dim = 16, rope_dim = 8, v_dim = 16;
  int index_topk = 24;           // deepseek_v32 only; 4 heads of 16
  bool index_interleave = false; // likewise: config.json's indexer_rope_interleave
  int mtp_layers = 0;            // deepseek only
  bool mtp_copies = false;       // of embedding and head, in the MTP layer; with other values than the originals
  std::uint64_t seed = 1;
};

// Writes config.json and model.safetensors into `folder` (which exists).
void write_tiny_checkpoint(const TinyModel& model, const std::filesystem::path& folder);

// Writes over bytes of one tensor of a safetensors file, from `offset` on.
void overwrite_tensor(const std::filesystem::path& file, const std::string& tensor, std::size_t offset,
                      std::span<const std::byte> bytes);

// Normal variates from a seed, the same everywhere.
class TinyRandom {
public:
  explicit TinyRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  double uniform();
  float normal();
  std::vector<float> normals(std::size_t count, float scale = 1, float mean = 0);

private:
  std::uint64_t state_;
};

[[nodiscard]] std::uint16_t bf16_of(float value); // nearest, ties to even
[[nodiscard]] std::uint16_t f16_of(float value);
[[nodiscard]] std::uint8_t e4m3_of(float value); // nearest, clamped to +-448
[[nodiscard]] float e4m3_value(std::uint8_t code);

} // namespace ductl::test
