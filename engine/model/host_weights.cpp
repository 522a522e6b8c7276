#include "engine/model/host_weights.hpp"

#include "weights/expert_names.hpp"
#include "weights/slice.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace ductl::engine {
namespace {

using weights::Checkpoint;
using weights::ModelConfig;

constexpr std::size_t kFaultsMax = 20;
constexpr int kScanRows = 256;
constexpr const char* kDamaged = "the checkpoint is damaged, or was exported from a run that diverged: fetch it again";

// Takes tensors out of a checkpoint and collects what is wrong with them.
class Loader {
public:
  explicit Loader(const Checkpoint& checkpoint) : checkpoint_(checkpoint), config_(checkpoint.config()) {}
  Expected<HostWeights> load();

private:
  weights::MatrixView view(const std::string& name, int rows, int columns);
  DenseMatrix matrix(const std::string& name, int rows, int columns) { return dense_matrix(view(name, rows, columns)); }
  std::vector<float> vector(const std::string& name, int size);
  template <class T> T keep(Expected<T> found) {
    if (found) return std::move(*found);
    add_fault(found.error());
    return {};
  }
  void add_fault(const Error& error) {
    if (++faults_ == 1)
      first_ = error;
    else if (faults_ <= kFaultsMax)
      more_ += "\n  " + error.message;
  }
  GqaWeights gqa(const std::string& prefix);
  MlaWeights mla(const std::string& prefix);
  IndexerWeights indexer(const std::string& prefix);
  MtpWeights mtp(int layer);
  LayerWeights layer(int index);

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  std::size_t faults_ = 0;
  Error first_;
  std::string more_;
  std::vector<NamedMatrix> matrices_;
};

weights::MatrixView Loader::view(const std::string& name, int rows, int columns) {
  auto found = keep(checkpoint_.matrix(name, rows, columns));
  if (found.data != nullptr) matrices_.push_back({name, dense_matrix(found)});
  return found;
}

std::vector<float> Loader::vector(const std::string& name, int size) {
  auto found = keep(checkpoint_.vector(name, size));
  const auto bad = std::find_if(found.begin(), found.end(), [](float value) { return !std::isfinite(value); });
  if (bad != found.end())
    add_fault({ErrorCode::kWeightNotFinite,
               fmt::format("tensor \"{}\" is {} at [{}]", name, *bad, bad - found.begin()),
               checkpoint_.folder().string(),
               kDamaged,
               {}});
  return found;
}

GqaWeights Loader::gqa(const std::string& prefix) {
  const int query = config_.heads * config_.head_dim, key = config_.kv_heads * config_.head_dim;
  GqaWeights w;
  w.query = matrix(prefix + "q_proj.weight", query, config_.hidden);
  w.key = matrix(prefix + "k_proj.weight", key, config_.hidden);
  w.value = matrix(prefix + "v_proj.weight", key, config_.hidden);
  w.output = matrix(prefix + "o_proj.weight", config_.hidden, query);
  if (!config_.qk_norm) return w;
  w.query_norm = vector(prefix + "q_norm.weight", config_.head_dim);
  w.key_norm = vector(prefix + "k_norm.weight", config_.head_dim);
  return w;
}

MlaWeights Loader::mla(const std::string& prefix) {
  const weights::Mla& m = config_.mla;
  const int query = config_.heads * (m.nope_dim + m.rope_dim);
  MlaWeights w;
  if (m.q_lora_rank == 0) {
    w.query_b = matrix(prefix + "q_proj.weight", query, config_.hidden);
  } else {
    w.query_a = matrix(prefix + "q_a_proj.weight", m.q_lora_rank, config_.hidden);
    w.query_a_norm = vector(prefix + "q_a_layernorm.weight", m.q_lora_rank);
    w.query_b = matrix(prefix + "q_b_proj.weight", query, m.q_lora_rank);
  }
  w.kv_a = matrix(prefix + "kv_a_proj_with_mqa.weight", m.kv_lora_rank + m.rope_dim, config_.hidden);
  w.kv_a_norm = vector(prefix + "kv_a_layernorm.weight", m.kv_lora_rank);
  w.kv_b = matrix(prefix + "kv_b_proj.weight", config_.heads * (m.nope_dim + m.v_dim), m.kv_lora_rank);
  w.output = matrix(prefix + "o_proj.weight", config_.hidden, config_.heads * m.v_dim);
  if (config_.indexer.heads > 0) w.indexer = indexer(prefix + "indexer.");
  return w;
}

IndexerWeights Loader::indexer(const std::string& prefix) {
  const weights::Indexer& i = config_.indexer;
  IndexerWeights w;
  w.query_b = matrix(prefix + "wq_b.weight", i.heads * i.head_dim, config_.mla.q_lora_rank);
  w.key = matrix(prefix + "wk.weight", i.head_dim, config_.hidden);
  w.key_norm = vector(prefix + "k_norm.weight", i.head_dim);
  w.key_norm_bias = vector(prefix + "k_norm.bias", i.head_dim);
  w.head_weight = matrix(prefix + "weights_proj.weight", i.heads, config_.hidden);
  return w;
}

MtpWeights Loader::mtp(int layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  MtpWeights w;
  w.embedding_norm = vector(prefix + "enorm.weight", config_.hidden);
  w.hidden_norm = vector(prefix + "hnorm.weight", config_.hidden);
  w.projection = matrix(weights::mtp_projection_name(layer), config_.hidden, 2 * config_.hidden);
  w.head_norm = vector(prefix + "shared_head.norm.weight", config_.hidden);
  return w;
}

LayerWeights Loader::layer(int index) {
  const std::string prefix = fmt::format("model.layers.{}.", index);
  LayerWeights w;
  w.input_norm = vector(prefix + "input_layernorm.weight", config_.hidden);
  w.ffn_norm = vector(prefix + "post_attention_layernorm.weight", config_.hidden);
  if (config_.mla.kv_lora_rank > 0)
    w.attention = mla(prefix + "self_attn.");
  else
    w.attention = gqa(prefix + "self_attn.");
  if (weights::is_moe_layer(config_, index)) w.router = matrix(prefix + "mlp.gate.weight", config_.moe.experts, config_.hidden);
  return w;
}

Expected<HostWeights> Loader::load() {
  HostWeights w;
  w.embedding = view("model.embed_tokens.weight", config_.vocab, config_.hidden);
  w.head = config_.tied_embeddings ? dense_matrix(w.embedding) : matrix("lm_head.weight", config_.vocab, config_.hidden);
  w.final_norm = vector("model.norm.weight", config_.hidden);
  for (int index = 0; index < weights::decoder_layers(config_); ++index) w.layers.push_back(layer(index));
  if (config_.mtp_layers > 0) w.mtp = mtp(config_.layers);
  w.matrices = std::move(matrices_);
  if (faults_ == 0) return w;
  first_.message += more_;
  if (faults_ > kFaultsMax) first_.message += fmt::format("\n  and {} more", faults_ - kFaultsMax);
  return tl::unexpected(first_);
}

template <class T> T load_bits(const std::uint8_t* at) {
  T bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

// The first of `count` numbers whose bits under `mask` are all set. Blocks are looked through without branches.
template <class T> std::int64_t find_exponent(const std::uint8_t* data, std::int64_t count, T mask) {
  constexpr std::int64_t kBlock = 64;
  const auto set = [&](std::int64_t i) { return T((load_bits<T>(data + i * std::int64_t(sizeof(T))) & mask) == mask); };
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, count);
    T any = 0;
    if (end - begin == kBlock)
      for (std::int64_t i = 0; i < kBlock; ++i) any = T(any | set(begin + i));
    else
      any = 1;
    for (std::int64_t i = begin; any != 0 && i < end; ++i)
      if (set(i) != 0) return i;
  }
  return -1;
}

std::int64_t find_in_scales(const DenseMatrix& m, int row_begin, int row_end) {
  const std::int64_t across = (m.columns + kDenseScaleBlock - 1) / kDenseScaleBlock;
  const std::int64_t first = (m.first_row + row_begin) / kDenseScaleBlock;
  const std::int64_t count = ((m.first_row + row_end - 1) / kDenseScaleBlock + 1 - first) * across;
  const std::int64_t found = m.scale_bf16 ? find_exponent<std::uint16_t>(m.scale + 2 * first * across, count, 0x7f80)
                                          : find_exponent<std::uint32_t>(m.scale + 4 * first * across, count, 0x7f800000U);
  if (found < 0) return -1;
  const std::int64_t row = std::max<std::int64_t>((first + found / across) * kDenseScaleBlock - m.first_row, row_begin);
  return row * m.columns + found % across * kDenseScaleBlock;
}

// As row * columns + column; -1 if there is none.
std::int64_t find_not_finite(const DenseMatrix& matrix, int row_begin, int row_end) {
  const DenseMatrix m = rows_of(matrix, row_begin, row_end - row_begin);
  const std::int64_t count = std::int64_t(m.rows) * m.columns;
  std::int64_t found = -1;
  switch (m.type) {
  case DenseType::F32: found = find_exponent<std::uint32_t>(m.data, count, 0x7f800000U); break;
  case DenseType::F16: found = find_exponent<std::uint16_t>(m.data, count, 0x7c00); break;
  case DenseType::Bf16: found = find_exponent<std::uint16_t>(m.data, count, 0x7f80); break;
  case DenseType::F8E4M3: found = find_exponent<std::uint8_t>(m.data, count, 0x7f); break; // e4m3 has NaN only
  }
  if (found >= 0) return std::int64_t(row_begin) * m.columns + found;
  return m.type == DenseType::F8E4M3 ? find_in_scales(matrix, row_begin, row_end) : -1;
}

} // namespace

DenseMatrix dense_matrix(const weights::MatrixView& view) {
  DenseMatrix m;
  m.data = reinterpret_cast<const std::uint8_t*>(view.data);
  m.scale = reinterpret_cast<const std::uint8_t*>(view.scale);
  m.scale_bf16 = view.scale_type == weights::DType::Bf16;
  m.rows = view.rows;
  m.columns = view.columns;
  switch (view.type) { // Checkpoint::matrix() gives no others
  case weights::DType::F16: m.type = DenseType::F16; break;
  case weights::DType::Bf16: m.type = DenseType::Bf16; break;
  case weights::DType::F8E4M3: m.type = DenseType::F8E4M3; break;
  default: m.type = DenseType::F32; break;
  }
  return m;
}

DenseMatrix rows_of(const DenseMatrix& matrix, int first, int count) {
  constexpr std::ptrdiff_t kBytes[] = {4, 2, 2, 1}; // by DenseType
  DenseMatrix m = matrix;
  m.data += first * row_pitch(matrix) * kBytes[int(matrix.type)];
  m.rows = count;
  m.first_row += first;
  return m;
}

Expected<HostWeights> load_host_weights(const Checkpoint& checkpoint) { return Loader(checkpoint).load(); }

Expected<void> check_finite(std::span<const NamedMatrix> matrices, ThreadPool& pool) {
  for (const NamedMatrix& named : matrices) {
    const DenseMatrix& m = named.matrix;
    std::atomic<std::int64_t> first{std::numeric_limits<std::int64_t>::max()};
    pool.run((m.rows + kScanRows - 1) / kScanRows, 1, [&](int begin, int end, int) {
      const std::int64_t found = find_not_finite(m, begin * kScanRows, std::min(end * kScanRows, m.rows));
      std::int64_t known = first;
      while (found >= 0 && found < known && !first.compare_exchange_weak(known, found)) {}
    });
    if (first == std::numeric_limits<std::int64_t>::max()) continue;
    return fail(ErrorCode::kWeightNotFinite,
                fmt::format("a weight (or its block's scale) of tensor \"{}\" is not a number or infinite", named.name),
                fmt::format("{} [{}, {}]", named.name, first / m.columns, first % m.columns), kDamaged);
  }
  return {};
}

} // namespace ductl::engine
