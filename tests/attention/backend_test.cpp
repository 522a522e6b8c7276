#include "engine/attention/cpu_backend.hpp"
#include "engine/attention/kv_cache.hpp"
#include "engine/lanes/forward.hpp"
#include "engine/moe/host_ffn.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <set>

namespace ductl::engine {
namespace {

using test::TinyModel;
using test::TinyType;
using testing::HasSubstr;

template <class T> T must(Expected<T> value) {
  if (!value) throw std::runtime_error(value.error().text());
  return std::move(*value);
}

std::vector<int> random_ids(int count, int vocab) {
  test::TinyRandom random(77);
  std::vector<int> ids;
  for (int i = 0; i < count; ++i) ids.push_back(int(random.bits() % unsigned(vocab)));
  return ids;
}

// FFNs take at most 64 tokens at a time; this one takes a whole prompt and gives it on in parts, so that attention sees it whole.
class WholePromptFfn final : public Ffn {
public:
  WholePromptFfn(Ffn& inner, int hidden) : inner_(inner), hidden_(std::size_t(hidden)) {}
  [[nodiscard]] int tokens_max() const override { return 1 << 16; }
  [[nodiscard]] Expected<void> start(const FfnRequest& request) override {
    sum_.resize(std::size_t(request.tokens) * hidden_);
    for (int begin = 0; begin < request.tokens; begin += inner_.tokens_max()) {
      FfnRequest part = request;
      part.tokens = std::min(inner_.tokens_max(), request.tokens - begin);
      part.x = request.x.subspan(std::size_t(begin) * hidden_, std::size_t(part.tokens) * hidden_);
      part.experts = request.experts.subspan(std::size_t(begin), std::size_t(part.tokens));
      if (auto started = inner_.start(part); !started) return started;
      const auto to = std::span(sum_).subspan(std::size_t(begin) * hidden_, std::size_t(part.tokens) * hidden_);
      if (auto done = inner_.finish(request.lane, to); !done) return tl::unexpected(done.error());
    }
    return {};
  }
  [[nodiscard]] Expected<RoundTimes> finish(int, std::span<float> y) override {
    std::copy(sum_.begin(), sum_.end(), y.begin());
    return RoundTimes{};
  }

private:
  Ffn& inner_;
  std::size_t hidden_;
  std::vector<float> sum_;
};

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), [](float value) { return std::bit_cast<std::uint32_t>(value); });
  return bits;
}

// Every key and value that the cache holds.
std::vector<std::uint32_t> cache_bits(KvCache& cache, int layers) {
  auto& cpu = static_cast<CpuKvCache&>(cache);
  const auto floats = std::size_t(cpu.length()) * std::size_t(cpu.row_floats());
  std::vector<std::uint32_t> all;
  for (int layer = 0; layer < layers; ++layer)
    for (int head = 0; head < cpu.heads(); ++head)
      for (const float* rows : {cpu.keys(layer, head), cpu.values(layer, head)}) {
        const auto bits = bits_of({rows, floats});
        all.insert(all.end(), bits.begin(), bits.end());
      }
  return all;
}

// Every key of the indexer that the cache holds.
std::vector<std::uint8_t> index_bytes(KvCache& cache, const weights::ModelConfig& config) {
  auto& cpu = static_cast<CpuKvCache&>(cache);
  const auto rows = std::size_t(cpu.length()), dims = std::size_t(config.indexer.head_dim);
  std::vector<std::uint8_t> all;
  const auto add = [&all](const void* data, std::size_t bytes) {
    const auto* begin = static_cast<const std::uint8_t*>(data);
    all.insert(all.end(), begin, begin + bytes);
  };
  for (int layer = 0; layer < config.layers; ++layer) {
    if (cpu.index_key_type() == inventory::IndexKeys::F32) {
      add(cpu.index_keys(layer), rows * dims * sizeof(float));
    } else {
      add(cpu.index_codes(layer), rows * dims);
      add(cpu.index_scales(layer), rows * sizeof(float));
    }
  }
  return all;
}

// A checkpoint on disk and all that runs it.
struct Engine {
  test::TempFolder folder;
  std::unique_ptr<weights::Checkpoint> checkpoint;
  std::unique_ptr<AttentionBackend> backend;
  std::unique_ptr<Ffn> ffn, whole_ffn;
  std::unique_ptr<Router> router;
  std::unique_ptr<Forward> forward;

  explicit Engine(const TinyModel& model, CpuBackendOptions options = {}) {
    write_tiny_checkpoint(model, folder.path());
    checkpoint = must(weights::open_checkpoint(folder.path().string()));
    backend = must(make_cpu_backend(*checkpoint, options));
    ffn = must(make_host_ffn(*checkpoint, options.threads));
    whole_ffn = std::make_unique<WholePromptFfn>(*ffn, checkpoint->config().hidden);
    router = std::make_unique<Router>(must(Router::load(*checkpoint)));
    forward = std::make_unique<Forward>(*backend, *whole_ffn, *router, checkpoint->config());
  }

  // Logits of every one of `ids`, behind what the cache holds.
  std::vector<float> run(KvCache& cache, std::span<const int> ids, int chunk) {
    const auto vocab = std::size_t(checkpoint->config().vocab);
    std::vector<float> all;
    for (std::size_t done = 0; done < ids.size();) {
      const auto count = std::min(ids.size() - done, std::size_t(chunk));
      must(forward->run(cache, ids.subspan(done, count)));
      std::vector<float> rows(count * vocab);
      backend->logits(0, 0, int(count), rows);
      all.insert(all.end(), rows.begin(), rows.end());
      done += count;
    }
    return all;
  }
  std::vector<float> run(std::span<const int> ids, int chunk) {
    return run(*must(backend->make_cache(int(ids.size()))), ids, chunk);
  }
};

TinyModel model_of(const std::string& type, TinyType numbers = TinyType::Bf16) {
  TinyModel model;
  model.model_type = type;
  model.type = numbers;
  return model;
}

std::vector<TinyModel> families() {
  std::vector<TinyModel> models;
  for (const char* type : {"llama", "qwen3", "qwen3_moe", "deepseek_v3"})
    for (const TinyType numbers : {TinyType::Bf16, TinyType::F8}) models.push_back(model_of(type, numbers));
  models.push_back(model_of("llama", TinyType::F32));
  models.back().tied = true;
  models.back().hidden = 96;
  models.back().heads = 3;
  models.back().kv_heads = 1;
  models.back().head_dim = 20; // no multiple of a vector
  models.push_back(model_of("deepseek_v32", TinyType::F16));
  models.back().yarn_factor = 40;
  models.push_back(model_of("qwen3", TinyType::F8Bf16Scale));
  models.back().yarn_factor = 4;
  return models;
}

class Families : public testing::TestWithParam<TinyModel> {};

TEST_P(Families, LogitsHaveTheSameBitsForAnyChunksAndThreads) {
  constexpr int kWhole = 90;
  const std::vector<int> ids = random_ids(kWhole, GetParam().vocab);
  std::vector<std::uint32_t> logits, keys_and_values;
  for (const int threads : {1, 3}) {
    Engine engine(GetParam(), {.threads = threads, .tokens_max = 128});
    for (const int chunk : {kWhole, 1, 7, 33, 64}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, chunks of " << chunk);
      const auto cache = must(engine.backend->make_cache(kWhole));
      const std::vector<float> rows = engine.run(*cache, ids, chunk);
      if (logits.empty()) {
        for (const float logit : rows) ASSERT_TRUE(std::isfinite(logit));
        logits = bits_of(rows);
        keys_and_values = cache_bits(*cache, GetParam().layers);
      }
      EXPECT_EQ(bits_of(rows), logits);
      EXPECT_EQ(cache_bits(*cache, GetParam().layers), keys_and_values);
    }
  }
}

// Two turns: the first prefilled, an answer decoded token by token, the second prefilled behind them.
TEST_P(Families, ASecondTurnHasTheBitsOfOnePrompt) {
  constexpr int kWhole = 90;
  const std::vector<int> ids = random_ids(kWhole, GetParam().vocab);
  Engine engine(GetParam(), {.threads = 2, .tokens_max = 128});
  const auto at_once = must(engine.backend->make_cache(kWhole)), in_turns = must(engine.backend->make_cache(128));
  const std::vector<float> expected = engine.run(*at_once, ids, kWhole);
  std::vector<float> rows = engine.run(*in_turns, std::span(ids).first(41), 41);
  for (const auto& [begin, count, chunk] : {std::array{41, 9, 1}, std::array{50, 40, 64}}) {
    const auto more = engine.run(*in_turns, std::span(ids).subspan(std::size_t(begin), std::size_t(count)), chunk);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  EXPECT_EQ(bits_of(rows), bits_of(expected));
  EXPECT_EQ(cache_bits(*in_turns, GetParam().layers), cache_bits(*at_once, GetParam().layers));
}

TEST_P(Families, ARollbackLeavesNoTrace) {
  const std::vector<int> ids = random_ids(30, GetParam().vocab), others = random_ids(50, GetParam().vocab - 1);
  Engine engine(GetParam(), {.threads = 2});
  const std::vector<float> expected = engine.run(ids, 30);
  const auto cache = must(engine.backend->make_cache(64));
  engine.run(*cache, std::span(ids).first(12), 5);
  engine.run(*cache, std::span(others).first(40), 16);
  EXPECT_EQ(cache->length(), 52);
  cache->truncate(12);
  const std::vector<float> rest = engine.run(*cache, std::span(ids).subspan(12), 4);
  EXPECT_EQ(rest, std::vector<float>(expected.begin() + 12 * GetParam().vocab, expected.end()));
}

std::string case_name(const testing::TestParamInfo<TinyModel>& tested) {
  constexpr const char* kTypes[] = {"f32", "bf16", "f16", "fp8", "fp8_bf16_scale"};
  return tested.param.model_type + "_" + kTypes[int(tested.param.type)];
}
INSTANTIATE_TEST_SUITE_P(Cpu, Families, testing::ValuesIn(families()), case_name);

// What an option of the indexer changes is which positions are attended to: nothing as long as all of them are.
void expect_another_selection(const std::vector<float>& rows, const std::vector<float>& others, const TinyModel& model) {
  ASSERT_EQ(rows.size(), others.size());
  const auto all = std::ptrdiff_t(model.index_topk) * model.vocab;
  EXPECT_TRUE(std::equal(rows.begin(), rows.begin() + all, others.begin()));
  EXPECT_FALSE(std::equal(rows.begin() + all, rows.end(), others.begin() + all));
}

TEST(CpuBackend, TheIndexersRopePairsAreThoseOfTheConfig) {
  const std::vector<int> ids = random_ids(90, 128);
  TinyModel model = model_of("deepseek_v32");
  const std::vector<float> halves = Engine(model).run(ids, 64);
  model.index_interleave = true;
  expect_another_selection(halves, Engine(model).run(ids, 64), model);
}

TEST(CpuBackend, TheIndexersKeysAreCachedAsTheOptionSays) {
  const std::vector<int> ids = random_ids(90, 128);
  const TinyModel model = model_of("deepseek_v32");
  const std::vector<float> floats = Engine(model).run(ids, 64);
  CpuBackendOptions fp8;
  fp8.index_keys = inventory::IndexKeys::Fp8;
  expect_another_selection(floats, Engine(model, fp8).run(ids, 64), model);
}

TEST(CpuBackend, TheIndexersKeysHaveTheSameBitsForAnyChunksTurnsAndBehindARollback) {
  constexpr int kWhole = 90;
  const std::vector<int> ids = random_ids(kWhole, 128), others = random_ids(30, 127);
  for (const auto type : {inventory::IndexKeys::F32, inventory::IndexKeys::Fp8}) {
    CpuBackendOptions options{.threads = 2, .tokens_max = 128};
    options.index_keys = type;
    Engine engine(model_of("deepseek_v32"), options);
    const auto whole = must(engine.backend->make_cache(kWhole));
    const std::vector<std::uint32_t> logits = bits_of(engine.run(*whole, ids, kWhole));
    const std::vector<std::uint8_t> keys = index_bytes(*whole, engine.checkpoint->config());
    EXPECT_GT(std::set<std::uint8_t>(keys.begin(), keys.end()).size(), 64u); // it is keys that are compared
    for (const int chunk : {1, 7, 64}) {
      SCOPED_TRACE(chunk);
      const auto cache = must(engine.backend->make_cache(128));
      std::vector<float> rows = engine.run(*cache, std::span(ids).first(40), chunk);
      engine.run(*cache, others, chunk);
      cache->truncate(40);
      const std::vector<float> rest = engine.run(*cache, std::span(ids).subspan(40), chunk);
      rows.insert(rows.end(), rest.begin(), rest.end());
      EXPECT_EQ(bits_of(rows), logits);
    }
    const auto exact = must(engine.backend->make_cache(kWhole)); // of the same capacity, as scales stand behind all codes
    engine.run(*exact, ids, 7);
    EXPECT_EQ(index_bytes(*exact, engine.checkpoint->config()), keys);
  }
}

// The same weights, the tensors `as_floats` names converted to F32: what their codes stand for, scale and all.
void write_with_floats(const weights::Checkpoint& from, const std::vector<std::string>& as_floats,
                       const std::filesystem::path& folder) {
  test::SafetensorsWriter writer;
  for (const std::string& name : from.tensor_names()) {
    const auto chosen = [&](const std::string& of) { return name.ends_with(of) || name.ends_with(of + "_scale_inv"); };
    const weights::TensorView tensor = *from.find(name);
    if (std::none_of(as_floats.begin(), as_floats.end(), chosen)) {
      writer.add(name, std::string(weights::to_string(tensor.type)), tensor.shape, {tensor.data.begin(), tensor.data.end()});
    } else if (tensor.shape.size() == 1) {
      writer.add_floats(name, tensor.shape, must(from.vector(name, int(tensor.shape[0]))));
    } else if (!name.ends_with("_scale_inv")) {
      const auto matrix = must(from.matrix(name, int(tensor.shape[0]), int(tensor.shape[1])));
      std::vector<float> values(std::size_t(matrix.rows) * std::size_t(matrix.columns));
      for (int row = 0; row < matrix.rows; ++row)
        weights::matrix_row(matrix, row,
                            std::span(values).subspan(std::size_t(row * matrix.columns), std::size_t(matrix.columns)));
      writer.add_floats(name, tensor.shape, values);
    }
  }
  std::filesystem::copy_file(from.folder() / "config.json", folder / "config.json");
  writer.write(folder / "model.safetensors");
}

// Published fp8 checkpoints hold BF16 and F32 tensors where others have fp8 and BF16 (an indexer's wk and k_norm): each tensor's
// own header decides, never config.json.
TEST(CpuBackend, TensorsOfOtherTypesInOneCheckpointAreReadByTheirOwnHeaders) {
  const std::vector<int> ids = random_ids(60, 128);
  for (const TinyType type : {TinyType::F8, TinyType::Bf16}) {
    Engine plain(model_of("deepseek_v32", type));
    const test::TempFolder folder;
    write_with_floats(
        *plain.checkpoint,
        {"indexer.wk.weight", "indexer.k_norm.weight", "indexer.k_norm.bias", "kv_a_layernorm.weight", "self_attn.o_proj.weight"},
        folder.path());
    const auto mixed = must(weights::open_checkpoint(folder.path().string()));
    EXPECT_EQ(mixed->find("model.layers.0.self_attn.indexer.wk.weight")->type, weights::DType::F32);
    EXPECT_NE(mixed->find("model.layers.0.self_attn.kv_b_proj.weight")->type, weights::DType::F32);
    const auto backend = must(make_cpu_backend(*mixed, {}));
    const auto ffn = must(make_host_ffn(*mixed, 1));
    const Router router = must(Router::load(*mixed));
    Forward forward(*backend, *ffn, router, mixed->config());
    const auto cache = must(backend->make_cache(int(ids.size())));
    must(forward.run(*cache, ids));
    std::vector<float> logits(ids.size() * 128);
    backend->logits(0, 0, int(ids.size()), logits);
    const std::vector<float> expected = plain.run(ids, 64);
    if (type == TinyType::Bf16) { EXPECT_EQ(bits_of(logits), bits_of(expected)); }
    for (std::size_t i = 0; i < logits.size(); ++i)
      ASSERT_NEAR(logits[i], expected[i], 1e-5) << i; // fp8's sums are made by blocks
  }
}

// The seam's promise: lanes in flight at once do not see each other.
TEST(CpuBackend, TwoLanesInterleavedGiveTheBitsOfOneAlone) {
  const std::vector<int> a = random_ids(20, 128), b = random_ids(33, 127);
  Engine engine(model_of("llama"), {.threads = 2, .lanes = 2});
  Engine alone(model_of("llama"), {.threads = 2});
  const auto& config = engine.checkpoint->config();
  const std::span<const int> ids[2] = {a, b};
  std::unique_ptr<KvCache> caches[2] = {must(engine.backend->make_cache(64)), must(engine.backend->make_cache(64))};
  std::vector<float> sums[2];
  for (int lane = 0; lane < 2; ++lane) {
    sums[lane].resize(ids[lane].size() * std::size_t(config.hidden));
    engine.backend->begin(lane, *caches[lane], ids[lane]);
    engine.backend->launch(lane, 0);
  }
  const ExpertChoice dense[1] = {{0, 1}};
  for (int layer = 0; layer < config.layers; ++layer)
    for (int lane = 0; lane < 2; ++lane) {
      const AttentionOutput output = engine.backend->take(lane);
      EXPECT_TRUE(engine.backend->ready(lane));
      EXPECT_TRUE(output.scores.empty());
      const std::vector<std::span<const ExpertChoice>> experts(ids[lane].size(), dense);
      must(engine.ffn->start({layer, lane, int(ids[lane].size()), output.x, experts}).and_then([&] {
        return engine.ffn->finish(lane, sums[lane]);
      }));
      engine.backend->absorb(lane, sums[lane]);
      if (layer + 1 < config.layers) engine.backend->launch(lane, layer + 1);
    }
  for (int lane = 0; lane < 2; ++lane) {
    std::vector<float> logits(ids[lane].size() * std::size_t(config.vocab));
    engine.backend->logits(lane, 0, int(ids[lane].size()), logits);
    EXPECT_EQ(logits, alone.run(ids[lane], 64)) << "lane " << lane;
    EXPECT_EQ(caches[lane]->length(), int(ids[lane].size()));
  }
}

TEST(CpuBackend, LogitsOfAPartOfTheBatchAreThoseOfTheWhole) {
  const std::vector<int> ids = random_ids(9, 128);
  Engine engine(model_of("qwen3"), {.threads = 1});
  const std::vector<float> all = engine.run(ids, 9);
  std::vector<float> last(128);
  engine.backend->logits(0, 8, 1, last);
  EXPECT_EQ(last, std::vector<float>(all.end() - 128, all.end()));
}

TEST(Forward, RefusesWhatDoesNotFitAndLeavesTheCacheAlone) {
  Engine engine(model_of("llama"), {.threads = 1});
  const auto cache = must(engine.backend->make_cache(4));
  const std::vector<int> ids = random_ids(5, 128);
  const auto beyond = engine.forward->run(*cache, ids);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::kContextLength);
  const int unknown[] = {3, 128};
  const auto value = engine.forward->run(*cache, unknown);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, ErrorCode::kRequestValue);
  EXPECT_THAT(value.error().message, HasSubstr("128"));
  EXPECT_EQ(cache->length(), 0);
}

class FailingFfn final : public Ffn {
public:
  [[nodiscard]] int tokens_max() const override { return 8; }
  [[nodiscard]] Expected<void> start(const FfnRequest& request) override {
    if (request.layer == 2) return fail(ErrorCode::kDuckDied, "duck d3 is silent in layer 2");
    return {};
  }
  [[nodiscard]] Expected<RoundTimes> finish(int, std::span<float> y) override {
    std::fill(y.begin(), y.end(), 0.0F);
    return RoundTimes{1, 2, 3, 4, 5};
  }
};

TEST(Forward, AFailedRoundLeavesTheCacheAsItWas) {
  Engine engine(model_of("llama"), {.threads = 1});
  FailingFfn failing;
  Forward forward(*engine.backend, failing, *engine.router, engine.checkpoint->config());
  EXPECT_EQ(forward.tokens_max(), 8);
  const auto cache = must(engine.backend->make_cache(16));
  const std::vector<int> ids = random_ids(10, 128);
  const std::vector<float> expected = engine.run(ids, 10);
  engine.run(*cache, std::span(ids).first(6), 6);
  const auto failed = forward.run(*cache, std::span(ids).subspan(6));
  ASSERT_FALSE(failed); // in the last layer, when the cache has grown already
  EXPECT_EQ(failed.error().code, ErrorCode::kDuckDied);
  ASSERT_EQ(cache->length(), 6);
  const std::vector<float> rest = engine.run(*cache, std::span(ids).subspan(6), 2);
  EXPECT_EQ(rest, std::vector<float>(expected.begin() + 6 * 128, expected.end()));
}

// Changes bytes of a tensor in a written checkpoint.
void patch(const std::filesystem::path& folder, const std::string& tensor, std::size_t offset,
           const std::vector<std::uint8_t>& bytes) {
  std::fstream file(folder / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  std::string header(length, ' ');
  file.read(header.data(), std::streamsize(length));
  const auto begin = nlohmann::json::parse(header).at(tensor).at("data_offsets").at(0).get<std::size_t>();
  file.seekp(std::streamoff(sizeof length + length + begin + offset));
  file.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

Error error_of(const std::filesystem::path& folder) {
  const auto checkpoint = must(weights::open_checkpoint(folder.string()));
  const auto backend = make_cpu_backend(*checkpoint, {.threads = 2});
  return backend ? Error{ErrorCode::kInternal, "no error", {}, {}} : backend.error();
}

TEST(CpuBackend, NamesTheTensorAndThePlaceOfANaN) {
  test::TempFolder folder;
  write_tiny_checkpoint(model_of("llama"), folder.path());
  patch(folder.path(), "model.layers.1.self_attn.k_proj.weight", 2 * (3 * 64 + 5), {0xc0, 0x7f});
  const Error error = error_of(folder.path());
  EXPECT_EQ(error.code, ErrorCode::kWeightNotFinite);
  EXPECT_THAT(error.message, HasSubstr("model.layers.1.self_attn.k_proj.weight"));
  EXPECT_THAT(error.place, HasSubstr("[3, 5]"));
}

TEST(CpuBackend, NamesFp8NaNsAndInfiniteScales) {
  for (const bool scale : {false, true}) {
    test::TempFolder folder;
    write_tiny_checkpoint(model_of("qwen3", TinyType::F8), folder.path());
    if (scale)
      patch(folder.path(), "model.layers.0.self_attn.o_proj.weight_scale_inv", 0, {0, 0, 0x80, 0x7f});
    else
      patch(folder.path(), "model.layers.0.self_attn.o_proj.weight", 7, {0xff});
    const Error error = error_of(folder.path());
    EXPECT_EQ(error.code, ErrorCode::kWeightNotFinite);
    EXPECT_THAT(error.place, HasSubstr(scale ? "[0, 0]" : "[0, 7]"));
  }
}

TEST(CpuBackend, ListsEveryMissingTensor) {
  test::TempFolder folder;
  TinyModel model = model_of("llama");
  write_tiny_checkpoint(model, folder.path());
  std::ifstream config_in(folder.path() / "config.json");
  auto config = nlohmann::json::parse(config_in);
  config["model_type"] = "qwen3"; // which has norms of q and k
  std::ofstream(folder.path() / "config.json") << config.dump();
  const Error error = error_of(folder.path());
  EXPECT_EQ(error.code, ErrorCode::kCheckpointTensor);
  EXPECT_THAT(error.message, HasSubstr("layers.0.self_attn.q_norm.weight"));
  EXPECT_THAT(error.message, HasSubstr("layers.2.self_attn.k_norm.weight"));
}

} // namespace
} // namespace ductl::engine
