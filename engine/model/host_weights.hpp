// The weights that the host computes with: everything but the FFNs, found by name and checked by shape.
// Views into the checkpoint (which must outlive them); norms are copied as float.
#pragma once

#include "engine/attention/kernels/dense.hpp"
#include "engine/attention/thread_pool.hpp"
#include "weights/checkpoint.hpp"

#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace ductl::engine {

struct GqaWeights {
  DenseMatrix query, key, value, output;
  std::vector<float> query_norm, key_norm; // [head_dim], empty where the family has none
};

// What DeepSeek-V3.2's sparse attention chooses positions with; query_b has rows 0 where a model has none.
struct IndexerWeights {
  DenseMatrix query_b, key, head_weight; // [heads * head_dim, q_lora_rank], [head_dim, hidden], [heads, hidden]
  std::vector<float> key_norm, key_norm_bias;
};

// Multi-head latent attention. kv_b holds per head nope_dim rows (keys) and v_dim rows (values).
struct MlaWeights {
  DenseMatrix query_a, query_b; // query_a is empty (rows 0) when queries have no low-rank form; query_b then takes x itself
  std::vector<float> query_a_norm;
  DenseMatrix kv_a, kv_b, output;
  std::vector<float> kv_a_norm;
  IndexerWeights indexer;
};

struct LayerWeights {
  std::vector<float> input_norm, ffn_norm; // [hidden]
  std::variant<GqaWeights, MlaWeights> attention;
  DenseMatrix router; // [experts, hidden]; rows 0 in dense layers
};

// What an MTP layer has beside a decoder layer: z = projection [norm(embedding); norm(hidden)], and a norm before the head.
struct MtpWeights {
  std::vector<float> embedding_norm, hidden_norm, head_norm; // [hidden]
  DenseMatrix projection;                                    // [hidden, 2 * hidden]
};

struct NamedMatrix {
  std::string name;
  DenseMatrix matrix;
};

struct HostWeights {
  weights::MatrixView embedding; // [vocab, hidden]
  DenseMatrix head;              // the embedding again when tied
  std::vector<float> final_norm;
  std::vector<LayerWeights> layers; // decoder_layers()
  std::optional<MtpWeights> mtp;
  std::vector<NamedMatrix> matrices; // all of the above, each once
};

[[nodiscard]] DenseMatrix dense_matrix(const weights::MatrixView& view);
// Rows first .. first+count-1 of a matrix.
[[nodiscard]] DenseMatrix rows_of(const DenseMatrix& matrix, int first, int count);

// Up to 20 missing or misshapen tensors in one Error.
[[nodiscard]] Expected<HostWeights> load_host_weights(const weights::Checkpoint& checkpoint);

// Reads every matrix once: the first NaN or infinity (in a weight or a block scale) is kWeightNotFinite naming tensor, row and
// column.
[[nodiscard]] Expected<void> check_finite(std::span<const NamedMatrix> matrices, ThreadPool& pool);

} // namespace ductl::engine
