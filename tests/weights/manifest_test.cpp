// Fixed-point exponents, digests and the manifest file.
#include "tests/weights/matrices.hpp"
#include "weights/fixed_point.hpp"
#include "weights/manifest.hpp"
#include "weights/stored_format.hpp"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <xxhash.h>

namespace ductl::weights {
namespace {

// A two-layer MoE model (dense, then 4 experts and a shared one) without a file.
class MemoryCheckpoint : public Checkpoint {
public:
  explicit MemoryCheckpoint(unsigned seed, DType type = DType::Bf16) {
    config_.family = Family::DeepseekV3;
    config_.hidden = 160, config_.layers = 2, config_.intermediate = 144;
    config_.moe.experts = 4, config_.moe.experts_per_token = 2, config_.moe.intermediate = 48;
    config_.moe.shared_experts = 1, config_.moe.first_moe_layer = 1;
    std::mt19937 random(seed);
    add_ffn("model.layers.0.mlp.", 144, type, random);
    for (int e = 0; e < 4; ++e) add_ffn("model.layers.1.mlp.experts." + std::to_string(e) + ".", 48, type, random);
    add_ffn("model.layers.1.mlp.shared_experts.", 48, type, random);
  }
  const std::filesystem::path& folder() const override { return folder_; }
  const ModelConfig& config() const override { return config_; }
  std::vector<std::string> tensor_names() const override { return {}; }
  std::optional<TensorView> find(std::string_view) const override { return std::nullopt; }
  Expected<MatrixView> matrix(std::string_view name, int rows, int columns) const override {
    const auto found = matrices_.find(std::string(name));
    if (found == matrices_.end() || found->second.view.rows != rows || found->second.view.columns != columns)
      return fail(ErrorCode::kCheckpointTensor, "no such tensor", std::string(name));
    return found->second.view;
  }
  Expected<std::vector<float>> vector(std::string_view name, int size) const override {
    if (norm_ == 0) return fail(ErrorCode::kCheckpointTensor, "no such tensor", std::string(name));
    return std::vector<float>(static_cast<std::size_t>(size), norm_);
  }
  const std::string& identity() const override { return identity_; }
  std::uint64_t bytes() const override { return 0; }

  std::map<std::string, test::Matrix> matrices_;
  std::string identity_ = "identity";
  float norm_ = 0; // of every norm weight; 0 = there are none

private:
  void add_ffn(const std::string& prefix, int channels, DType type, std::mt19937& random) {
    test::Expert expert = test::random_expert(type, config_.hidden, channels, random);
    const auto add = [&](const char* name, test::Matrix matrix) {
      matrix.view.name = prefix + name + "_proj.weight";
      matrices_.emplace(matrix.view.name, std::move(matrix));
    };
    add("gate", std::move(expert.gate));
    add("up", std::move(expert.up));
    add("down", std::move(expert.down));
  }
  std::filesystem::path folder_ = "/nowhere";
  ModelConfig config_;
};

bool equal(const Manifest& a, const Manifest& b) {
  if (a.model_id != b.model_id || a.format != b.format || a.hidden != b.hidden || a.layers.size() != b.layers.size())
    return false;
  for (std::size_t l = 0; l < a.layers.size(); ++l)
    if (a.layers[l].layer != b.layers[l].layer || a.layers[l].exponent != b.layers[l].exponent ||
        a.layers[l].digest != b.layers[l].digest)
      return false;
  return true;
}

TEST(FixedPoint, scales_are_exact_powers_of_two) {
  EXPECT_EQ(fixed_scale(13, 0), 8192.0f);
  EXPECT_EQ(fixed_scale(13, 1), 32.0f);
  EXPECT_EQ(fixed_step(13, 2), 8.0f);
  for (int exponent = -100; exponent <= 100; ++exponent)
    for (int rung = 0; rung < kRungs; ++rung) EXPECT_EQ(fixed_scale(exponent, rung) * fixed_step(exponent, rung), 1.0f);
}

TEST(FixedPoint, the_exponent_leaves_the_range_and_bounds_the_rounding) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> size(-60, 60);
  for (int trial = 0; trial < 2000; ++trial) {
    const double rms = std::exp2(size(random));
    const int slices = 1 + static_cast<int>(random() % 2000);
    const double step = std::exp2(-fixed_exponent(rms, slices)), range = 0x1p31 * step;
    EXPECT_GE(range, 1024 * rms);
    EXPECT_TRUE(slices > 1152 || std::sqrt(slices / 12.0) * step <= 1.01e-5 * rms) << slices;
  }
  EXPECT_EQ(fixed_exponent(0, 96), 0);
  EXPECT_EQ(fixed_exponent(1e-60, 96), 100);
  EXPECT_EQ(fixed_exponent(1e60, 96), -100);
}

TEST(FixedPoint, norms_of_a_slice_are_those_of_its_weights) {
  std::mt19937 random(2);
  for (const DType type : {DType::F8E4M3, DType::Bf16}) {
    const test::Expert expert = test::random_expert(type, 288, 144, random);
    const auto prepared = prepare_expert(expert.weights());
    ASSERT_TRUE(prepared);
    ExpertNorms norms;
    SliceNorms slice;
    std::vector<std::byte> out(slice_layout(288).bytes);
    for (int index = 0; index < 9; ++index) {
      ASSERT_TRUE(pack_slice(*prepared, index, out));
      slice_norms(out.data(), 288, slice);
      norms.add(slice);
    }
    double gate = 0, down[3] = {};
    for (int r = 0; r < 144; ++r)
      for (int c = 0; c < 288; ++c) {
        gate += std::pow(matrix_element(expert.gate.view, r, c), 2);
        down[c / 128] += std::pow(matrix_element(expert.down.view, c, r), 2);
      }
    EXPECT_EQ(norms.channels, 144);
    EXPECT_NEAR(norms.gate / gate, 1, 0.005) << "fp9 keeps a norm within its rounding";
    for (std::size_t block = 0; block < 3; ++block) EXPECT_NEAR(norms.down[block] / down[block], 1, 0.005);
  }
}

// y = down(silu(gate x) * up x) in double for gaussian x: does the expectation hold?
TEST(FixedPoint, the_expected_rms_is_that_of_a_random_ffn) {
  std::mt19937 random(3);
  const test::Expert expert = test::random_expert(DType::F32, 128, 256, random);
  std::normal_distribution<double> gauss(0, 1.5);
  double square = 0;
  constexpr int kTokens = 50;
  for (int token = 0; token < kTokens; ++token) {
    std::vector<double> x(128), h(256);
    for (double& value : x) value = gauss(random);
    for (int r = 0; r < 256; ++r) {
      double g = 0, u = 0;
      for (int c = 0; c < 128; ++c) {
        g += matrix_element(expert.gate.view, r, c) * x[static_cast<std::size_t>(c)];
        u += matrix_element(expert.up.view, r, c) * x[static_cast<std::size_t>(c)];
      }
      h[static_cast<std::size_t>(r)] = g / (1 + std::exp(-g)) * u;
    }
    for (int r = 0; r < 128; ++r) {
      double y = 0;
      for (int c = 0; c < 256; ++c) y += matrix_element(expert.down.view, r, c) * h[static_cast<std::size_t>(c)];
      square += y * y;
    }
  }
  ExpertNorms norms;
  const auto prepared = prepare_expert(expert.weights());
  std::vector<std::byte> out(slice_layout(128).bytes);
  SliceNorms slice;
  for (int index = 0; index < 16; ++index) {
    ASSERT_TRUE(pack_slice(*prepared, index, out));
    slice_norms(out.data(), 128, slice);
    norms.add(slice);
  }
  const double expected = expected_rms(128, {&norms, 1}, -1, {1.5, 1, 1.0})[0];
  EXPECT_NEAR(std::sqrt(square / (kTokens * 128)) / expected, 1, 0.3);
}

TEST(Manifest, digests_are_those_of_the_packed_slices) {
  const MemoryCheckpoint checkpoint(11);
  const auto manifest = make_manifest(checkpoint, TileFormat::NineBit, 2);
  ASSERT_TRUE(manifest) << manifest.error().text();
  EXPECT_EQ(manifest->hidden, 160);
  EXPECT_EQ(manifest->layout.bytes, slice_layout(160).bytes);
  ASSERT_EQ(manifest->layers.size(), 2u);
  ASSERT_EQ(manifest->layers[0].digest.size(), 1u);
  ASSERT_EQ(manifest->layers[1].digest.size(), 5u);
  EXPECT_EQ(manifest->layers[0].digest[0].size(), 9u);
  EXPECT_EQ(manifest->layers[1].exponent.size(), 2u);
  const auto weights = expert_weights(checkpoint, 1, 4); // the shared one
  ASSERT_TRUE(weights);
  const auto prepared = prepare_expert(*weights);
  std::vector<std::byte> out(slice_layout(160).bytes);
  for (int index = 0; index < 3; ++index) {
    ASSERT_TRUE(pack_slice(*prepared, index, out));
    EXPECT_EQ(manifest->layers[1].digest[4][static_cast<std::size_t>(index)], XXH3_64bits(out.data(), out.size()));
  }
}

// Both forms hold the same weights, so whatever is computed from them is the same: exponents, and with them all sums.
TEST(Manifest, of_an_fp8_checkpoint_has_the_same_exponents_in_either_format) {
  const MemoryCheckpoint checkpoint(12, DType::F8E4M3);
  const auto nine = make_manifest(checkpoint, TileFormat::NineBit, 2), eight = make_manifest(checkpoint, TileFormat::EightBit, 2);
  ASSERT_TRUE(nine && eight);
  EXPECT_EQ(eight->format, TileFormat::EightBit);
  EXPECT_EQ(eight->layout.bytes, slice_layout(160, TileFormat::EightBit).bytes);
  EXPECT_NE(eight->model_id, nine->model_id) << "ducks filled with the one are not filled with the other";
  for (std::size_t l = 0; l < nine->layers.size(); ++l) {
    EXPECT_EQ(eight->layers[l].exponent, nine->layers[l].exponent) << l;
    EXPECT_NE(eight->layers[l].digest, nine->layers[l].digest) << l;
  }
}

TEST(StoredFormat, is_e4m3_where_all_weights_are_fp8_and_fp9_otherwise) {
  MemoryCheckpoint fp8(13, DType::F8E4M3);
  EXPECT_EQ(choose_format(fp8, "auto").value(), TileFormat::EightBit);
  EXPECT_EQ(choose_format(fp8, "e4m3").value(), TileFormat::EightBit);
  EXPECT_EQ(choose_format(fp8, "fp9").value(), TileFormat::NineBit);
  const MemoryCheckpoint bf16(13, DType::Bf16);
  EXPECT_EQ(choose_format(bf16, "auto").value(), TileFormat::NineBit);
  EXPECT_EQ(choose_format(bf16, "fp9").value(), TileFormat::NineBit);
  fp8.matrices_.at("model.layers.1.mlp.experts.2.up_proj.weight").view.type = DType::F16; // one of many
  EXPECT_EQ(choose_format(fp8, "auto").value(), TileFormat::NineBit);
}

TEST(StoredFormat, e4m3_of_other_weights_is_refused_by_name) {
  const auto refused = choose_format(MemoryCheckpoint(13, DType::Bf16), "e4m3");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kModelUnsupported);
  EXPECT_NE(refused.error().message.find("model.layers.0.mlp.gate_proj.weight is BF16"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().next.find("\"fp9\""), std::string::npos);
}

TEST(Manifest, is_the_same_for_every_number_of_threads) {
  const MemoryCheckpoint checkpoint(12, DType::F8E4M3);
  std::vector<std::pair<int, int>> seen;
  const auto one = make_manifest(checkpoint, TileFormat::NineBit, 1, [&](int done, int all) { seen.emplace_back(done, all); });
  ASSERT_TRUE(one);
  EXPECT_EQ(seen, (std::vector<std::pair<int, int>>{{1, 2}, {2, 2}}));
  for (const int threads : {0, 2, 3, 16})
    EXPECT_TRUE(equal(*make_manifest(checkpoint, TileFormat::NineBit, threads), *one)) << threads;
}

TEST(Manifest, packing_that_is_told_to_stop_is_cancelled) {
  const MemoryCheckpoint checkpoint(12);
  for (const int threads : {1, 3}) {
    std::atomic<int> asked{0};
    const auto stopped = make_manifest(checkpoint, TileFormat::NineBit, threads, {}, [&] { return ++asked > 2; });
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
    EXPECT_LE(asked, 2 + threads); // nobody takes another expert then
  }
}

TEST(Manifest, the_norm_before_the_ffn_moves_the_exponents) {
  MemoryCheckpoint checkpoint(13);
  const auto plain = make_manifest(checkpoint, TileFormat::NineBit, 1);
  checkpoint.norm_ = 4; // y grows with its square
  const auto scaled = make_manifest(checkpoint, TileFormat::NineBit, 1);
  ASSERT_TRUE(plain && scaled);
  for (std::size_t layer = 0; layer < 2; ++layer)
    for (std::size_t block = 0; block < 2; ++block)
      EXPECT_EQ(plain->layers[layer].exponent[block] - scaled->layers[layer].exponent[block], 4);
}

TEST(Manifest, the_first_bad_weight_is_named_whatever_the_threads) {
  MemoryCheckpoint checkpoint(14);
  test::set(checkpoint.matrices_.at("model.layers.1.mlp.experts.2.up_proj.weight"), 5, 6, std::nanf(""));
  test::set(checkpoint.matrices_.at("model.layers.1.mlp.shared_experts.up_proj.weight"), 5, 6, std::nanf(""));
  for (const int threads : {1, 2, 8}) {
    const auto manifest = make_manifest(checkpoint, TileFormat::NineBit, threads);
    ASSERT_FALSE(manifest);
    EXPECT_EQ(manifest.error().code, ErrorCode::kWeightNotFinite);
    EXPECT_EQ(manifest.error().place, "model.layers.1.mlp.experts.2.up_proj.weight[5][6]");
  }
}

class ManifestFile : public testing::Test {
protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "ductl-manifest-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(ManifestFile, comes_back_as_it_was_and_no_damage_gets_through) {
  const auto manifest = make_manifest(MemoryCheckpoint(15), TileFormat::NineBit, 2);
  ASSERT_TRUE(manifest);
  const auto file = folder_ / "a.manifest";
  ASSERT_TRUE(save_manifest(*manifest, file));
  const auto loaded = load_manifest(file);
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_TRUE(equal(*loaded, *manifest));
  EXPECT_EQ(loaded->layout.bytes, manifest->layout.bytes);

  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const auto refused = [&](const std::string& contents) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << contents;
    const auto again = load_manifest(file);
    return !again && again.error().code == ErrorCode::kState;
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    ASSERT_TRUE(refused(flipped)) << i;
  }
  for (std::size_t size = 0; size < bytes.size(); size += 7) ASSERT_TRUE(refused(bytes.substr(0, size))) << size;
  // A seal that is right over counts that are not.
  std::string huge = bytes.substr(0, bytes.size() - 8);
  const std::size_t layers = 8 + 4 + 4 + 32 + 4 + 3 + 4;
  std::memset(huge.data() + layers, 0xFF, 4);
  const std::uint64_t seal = XXH3_64bits(huge.data(), huge.size());
  ASSERT_TRUE(refused(huge + std::string(reinterpret_cast<const char*>(&seal), 8)));
}

TEST_F(ManifestFile, is_made_once_and_again_when_it_is_damaged_or_of_another_checkpoint) {
  MemoryCheckpoint checkpoint(16);
  int made = 0;
  const auto count = [&](int done, int all) { made += done == all; };
  const auto first = obtain_manifest(checkpoint, TileFormat::NineBit, folder_, 1, count);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(made, 1);
  ASSERT_TRUE(obtain_manifest(checkpoint, TileFormat::NineBit, folder_, 1, count));
  EXPECT_EQ(made, 1);
  std::ofstream(manifest_file(folder_, first->model_id), std::ios::binary | std::ios::trunc) << "ductlman";
  const auto second = obtain_manifest(checkpoint, TileFormat::NineBit, folder_, 1, count);
  ASSERT_TRUE(second);
  EXPECT_TRUE(equal(*second, *first));
  EXPECT_EQ(made, 2);
  checkpoint.identity_ = "another";
  const auto other = obtain_manifest(checkpoint, TileFormat::NineBit, folder_, 1, count);
  ASSERT_TRUE(other);
  EXPECT_NE(other->model_id, first->model_id);
  EXPECT_EQ(made, 3);
}

TEST(CombinedDigest, depends_on_every_slice_and_its_place) {
  const std::vector<HeldSlice> slices = {{{3, 0, 1}, 11}, {{3, 0, 2}, 12}, {{3, 5, 0}, 13}};
  const SliceDigest whole = combined_digest(slices);
  EXPECT_EQ(combined_digest(slices), whole);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    auto changed = slices;
    changed[i].digest ^= 1;
    EXPECT_NE(combined_digest(changed), whole);
    changed = slices, ++changed[i].id.index;
    EXPECT_NE(combined_digest(changed), whole);
    changed = slices, changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(combined_digest(changed), whole);
  }
}

} // namespace
} // namespace ductl::weights
