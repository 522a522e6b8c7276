#include "weights/random_checkpoint.hpp"

#include "weights/float_types.hpp"
#include "weights/json_text.hpp"
#include "weights/slice.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sys/mman.h>
#include <xxhash.h>

namespace ductl::weights {
namespace {

constexpr std::string_view kScheme = "random:";
constexpr std::uint64_t kConfigBytesMax = 4u << 20;
constexpr std::size_t kPeriod = 1'048'583; // numbers until they repeat; a prime, so that no two rows of a matrix are alike
constexpr float kDeviation = 0.02f, kCodeDeviation = 60, kCodeLargest = 448;
constexpr const char* kNext = "give --config the config.json of a supported model (docs/models.md)";

// The part of `text` between `before` and the next `end`.
std::optional<int> number_between(std::string_view& text, std::string_view before, char end) {
  if (!text.starts_with(before)) return std::nullopt;
  text.remove_prefix(before.size());
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop == text.data() + text.size() || *stop != end || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()) + 1);
  return value;
}

Expected<RandomShape> read_source(std::string_view source) {
  std::string_view rest = source;
  rest.remove_prefix(std::min(rest.size(), kScheme.size()));
  const auto layers = number_between(rest, "layers=", ','), vocab = number_between(rest, "vocab=", ':');
  if (!layers || !vocab || rest.empty())
    return fail(ErrorCode::kUsage, fmt::format("\"{}\" is no source of random weights", source), "",
                "such a source reads random:layers=4,vocab=32000:/path/of/config.json");
  return RandomShape{rest, *layers, *vocab};
}

bool is_ffn(std::string_view name) { return name.find(".mlp.") != std::string_view::npos && name.ends_with("_proj.weight"); }

// What fp8 checkpoints keep in fp8: projections of attention and FFNs.
bool is_projection(std::string_view name) {
  if (name.ends_with("weights_proj.weight")) return false;
  return name.ends_with("_proj.weight") || name.ends_with("_proj_with_mqa.weight") || name.ends_with(".wq_b.weight") ||
         name.ends_with(".wk.weight");
}

// The nearest code; larger magnitudes become the largest.
std::uint8_t e4m3_nearest(float value) {
  const float magnitude = std::min(std::fabs(value), kCodeLargest);
  int exponent = magnitude < 0x1p-6f ? -6 : std::ilogb(magnitude);
  int eighths = static_cast<int>(std::lround(std::ldexp(magnitude, 3 - exponent))); // of 2^exponent; below 8: subnormal
  if (eighths == 16) eighths = 8, ++exponent;
  const int biased = eighths < 8 ? 0 : exponent + 7;
  return static_cast<std::uint8_t>((std::signbit(value) ? 0x80 : 0) | biased << 3 | (eighths & 7));
}

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const { ::munmap(memory, bytes); }
};
using Memory = std::unique_ptr<std::byte, Unmap>;

Expected<Memory> map_memory(std::size_t bytes, std::string_view what) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return fail(ErrorCode::kHostMemory, fmt::format("no memory for {} bytes of random weights", bytes), std::string(what),
                "end other programs, or cut the model with --layers and --vocab");
  ::madvise(memory, bytes, MADV_HUGEPAGE); // a wish
  return Memory(static_cast<std::byte*>(memory), Unmap{bytes});
}

class RandomCheckpoint final : public Checkpoint {
public:
  RandomCheckpoint(const RandomShape& shape, ModelConfig config, std::string_view config_text);

  [[nodiscard]] const std::filesystem::path& folder() const override { return folder_; }
  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] std::vector<std::string> tensor_names() const override { return {}; } // whatever is asked for is there
  [[nodiscard]] std::optional<TensorView> find(std::string_view) const override { return std::nullopt; }
  [[nodiscard]] Expected<MatrixView> matrix(std::string_view name, int rows, int columns) const override;
  [[nodiscard]] Expected<std::vector<float>> vector(std::string_view name, int size) const override;
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] std::uint64_t bytes() const override;

private:
  [[nodiscard]] DType type_of(std::string_view name) const;
  [[nodiscard]] const std::vector<std::byte>& period(DType type) const;
  [[nodiscard]] Expected<const std::byte*> own_memory(std::string_view name, DType type, std::size_t bytes) const;
  [[nodiscard]] Expected<const std::byte*> window(std::string_view name, DType type, std::size_t bytes) const;
  void repeat(DType type, std::size_t begin, std::byte* out, std::size_t bytes) const;

  std::filesystem::path folder_;
  ModelConfig config_;
  std::string identity_;
  std::vector<std::byte> plain_, eight_; // a period of the plain type, and of e4m3 codes
  std::vector<float> scale_;             // of every block of fp8 matrices
  mutable std::mutex mutex_;             // below: under it
  mutable std::map<std::string, Memory, std::less<>> own_;
  mutable std::map<DType, Memory> stretch_; // for FFNs: the largest matrix and one period
};

std::size_t largest_ffn(const ModelConfig& config) {
  std::size_t channels = 0;
  for (int layer = 0; layer < config.layers; ++layer)
    for (const int expert : {0, shared_expert(config, layer)})
      if (expert >= 0) channels = std::max(channels, static_cast<std::size_t>(expert_channels(config, layer, expert)));
  return channels * static_cast<std::size_t>(config.hidden);
}

RandomCheckpoint::RandomCheckpoint(const RandomShape& shape, ModelConfig config, std::string_view config_text)
    : folder_(std::filesystem::absolute(shape.config).parent_path()),
      config_(std::move(config)),
      identity_(fmt::format("random weights 1, {} layers, vocabulary {}, {:016x}", config_.layers, config_.vocab,
                            XXH3_64bits(config_text.data(), config_text.size()))) {
  const std::size_t element = static_cast<std::size_t>(config_.element_bytes);
  plain_.resize(kPeriod * element);
  eight_.resize(config_.fp8_blocks ? kPeriod : 0);
  std::mt19937 random(20260);
  std::normal_distribution<float> gauss(0, 1);
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const float value = gauss(random);
    const float plain = value * kDeviation;
    const std::uint16_t half = float_to_bf16(plain);
    std::memcpy(plain_.data() + i * element, element == 4 ? static_cast<const void*>(&plain) : &half, element);
    if (!eight_.empty()) eight_[i] = std::byte{e4m3_nearest(value * kCodeDeviation)};
  }
  std::size_t blocks = 0;
  for (const int rows : {config_.hidden, config_.intermediate, config_.heads * config_.head_dim,
                         config_.heads * (config_.mla.nope_dim + config_.mla.v_dim),
                         config_.indexer.heads * config_.indexer.head_dim, config_.moe.shared_experts * config_.moe.intermediate})
    blocks = std::max(blocks, static_cast<std::size_t>(rows / kScaleBlock + 1));
  if (config_.fp8_blocks) scale_.assign(blocks * blocks, kDeviation / kCodeDeviation);
}

DType RandomCheckpoint::type_of(std::string_view name) const {
  if (config_.fp8_blocks && is_projection(name)) return DType::F8E4M3;
  return config_.element_bytes == 4 ? DType::F32 : DType::Bf16;
}

const std::vector<std::byte>& RandomCheckpoint::period(DType type) const { return type == DType::F8E4M3 ? eight_ : plain_; }

// The endless repetition of the period from element `begin` on.
void RandomCheckpoint::repeat(DType type, std::size_t begin, std::byte* out, std::size_t bytes) const {
  const std::vector<std::byte>& from = period(type);
  std::size_t at = begin % kPeriod * dtype_bytes(type);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t count = std::min(bytes - done, from.size() - at);
    std::memcpy(out + done, from.data() + at, count);
    done += count;
    at = 0;
  }
}

Expected<const std::byte*> RandomCheckpoint::own_memory(std::string_view name, DType type, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (const auto known = own_.find(name); known != own_.end()) return known->second.get();
  auto memory = map_memory(bytes, name);
  if (!memory) return tl::unexpected(memory.error());
  repeat(type, XXH3_64bits(name.data(), name.size()), memory->get(), bytes);
  return own_.emplace(name, std::move(*memory)).first->second.get();
}

Expected<const std::byte*> RandomCheckpoint::window(std::string_view name, DType type, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const std::size_t element = dtype_bytes(type), whole = (largest_ffn(config_) + kPeriod) * element;
  Memory& stretch = stretch_[type];
  if (stretch == nullptr) {
    auto memory = map_memory(whole, name);
    if (!memory) return tl::unexpected(memory.error());
    repeat(type, 0, memory->get(), whole);
    stretch = std::move(*memory);
  }
  const std::size_t begin = XXH3_64bits(name.data(), name.size()) % kPeriod * element;
  if (begin + bytes > whole)
    return fail(ErrorCode::kInternal, fmt::format("an FFN matrix of {} bytes is larger than the config's", bytes),
                std::string(name));
  return stretch.get() + begin;
}

Expected<MatrixView> RandomCheckpoint::matrix(std::string_view name, int rows, int columns) const {
  const DType type = type_of(name);
  const std::size_t bytes = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) * dtype_bytes(type);
  const auto data = is_ffn(name) ? window(name, type, bytes) : own_memory(name, type, bytes);
  if (!data) return tl::unexpected(data.error());
  MatrixView view{std::string(name), type, rows, columns, *data, nullptr, DType::F32};
  if (type != DType::F8E4M3) return view;
  const auto blocks = [](int size) { return static_cast<std::size_t>((size + kScaleBlock - 1) / kScaleBlock); };
  if (blocks(rows) * blocks(columns) > scale_.size())
    return fail(ErrorCode::kInternal, fmt::format("no scales for [{}, {}]", rows, columns), std::string(name));
  view.scale = reinterpret_cast<const std::byte*>(scale_.data());
  return view;
}

// Norms are near 1, biases near 0.
Expected<std::vector<float>> RandomCheckpoint::vector(std::string_view name, int size) const {
  const float mean = name.ends_with("bias") ? 0.0f : 1.0f;
  std::vector<float> values(static_cast<std::size_t>(size));
  std::mt19937 random(static_cast<std::uint32_t>(XXH3_64bits(name.data(), name.size())));
  std::normal_distribution<float> gauss(mean, kDeviation);
  for (float& value : values) value = gauss(random);
  return values;
}

// Of what has been asked for so far.
std::uint64_t RandomCheckpoint::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const auto& [name, memory] : own_) total += memory.get_deleter().bytes;
  for (const auto& [type, memory] : stretch_) total += memory.get_deleter().bytes;
  return total;
}

Expected<std::string> config_text(const RandomShape& shape) {
  auto text = read_text_file(shape.config, kConfigBytesMax);
  if (!text) text.error().next = kNext;
  return text;
}

Expected<ModelConfig> cut_config(const RandomShape& shape, std::string_view text) {
  auto config = parse_model_config(text, "", shape.config.string());
  if (!config) return config;
  if (shape.layers > config->layers)
    return fail(ErrorCode::kUsage, fmt::format("--layers is {}, and the model has {}", shape.layers, config->layers),
                shape.config.string(), "give as many or fewer");
  if (shape.layers > 0) config->layers = shape.layers;
  if (shape.vocab > 0) config->vocab = shape.vocab;
  std::erase_if(config->eos_tokens, [&](int id) { return id >= config->vocab; });
  if (config->bos_token >= config->vocab) config->bos_token = -1;
  config->moe.first_moe_layer = std::min(config->moe.first_moe_layer, config->layers);
  config->mtp_layers = 0;
  return config;
}

} // namespace

std::string random_source(const RandomShape& shape) {
  return fmt::format("{}layers={},vocab={}:{}", kScheme, shape.layers, shape.vocab, shape.config.string());
}

bool is_random_source(std::string_view source) { return source.starts_with(kScheme); }

Expected<ModelConfig> random_config(const RandomShape& shape) {
  const auto text = config_text(shape);
  if (!text) return tl::unexpected(text.error());
  return cut_config(shape, *text);
}

Expected<std::unique_ptr<Checkpoint>> open_random_checkpoint(const std::string& source) {
  const auto shape = read_source(source);
  if (!shape) return tl::unexpected(shape.error());
  const auto text = config_text(*shape);
  if (!text) return tl::unexpected(text.error());
  auto config = cut_config(*shape, *text);
  if (!config) return tl::unexpected(config.error());
  return std::make_unique<RandomCheckpoint>(*shape, std::move(*config), *text);
}

} // namespace ductl::weights
