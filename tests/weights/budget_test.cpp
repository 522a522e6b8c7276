#include "weights/budget.hpp"

#include "tests/weights/temporary_checkpoint.hpp"

#include <gmock/gmock.h>

namespace ductl::weights {
namespace {

using testing::HasSubstr;
using testing::Not;

ModelConfig config_of(const std::string& name) {
  const auto file = std::filesystem::path(DUCTL_SOURCE_DIR) / "tests/weights/configs" / (name + ".json");
  const auto config = parse_model_config(test::read_file(file), "", file.string());
  EXPECT_TRUE(config) << (config ? "" : config.error().text());
  return config.value_or(ModelConfig{});
}

struct Published {
  const char* model;
  std::uint64_t total, active, host, ducks; // host with DenseShared
  std::uint64_t embedding, attention, shared;
  std::uint64_t kv_values; // kept numbers a token
};
class PublishedSizes : public testing::TestWithParam<Published> {};

TEST_P(PublishedSizes, follow_from_the_config_to_the_last_parameter) {
  const Published& p = GetParam();
  ModelConfig config = config_of(p.model);
  config.mtp_layers = 0; // published totals leave it out
  const ModelSizes sizes = model_sizes(config, HostFfn::DenseShared);
  EXPECT_EQ(sizes.parameters, p.total);
  EXPECT_EQ(sizes.active_parameters, p.active);
  EXPECT_EQ(sizes.embedding_parameters, p.embedding);
  EXPECT_EQ(sizes.attention_parameters, p.attention);
  EXPECT_EQ(sizes.shared_parameters, p.shared);
  EXPECT_EQ(sizes.host_parameters, p.host);
  EXPECT_EQ(sizes.duck_parameters, p.ducks);
  EXPECT_EQ(sizes.kv_bytes_per_token, p.kv_values * 4);
}

// Published totals; kv_values is the bf16 bytes of a token, halved.
INSTANTIATE_TEST_SUITE_P(Budget, PublishedSizes,
                         testing::Values(Published{"smollm2_135m", 134'515'008, 134'515'008, 54'888'768, 79'626'240, 28'311'552,
                                                   26'542'080, 0, 23'040 / 2},
                                         Published{"qwen3_0_6b", 596'049'920, 596'049'920, 331'808'768, 264'241'152, 155'582'464,
                                                   176'167'936, 0, 114'688 / 2},
                                         Published{"qwen3_30b_a3b", 30'532'122'624, 3'353'032'704, 1'541'093'376, 28'991'029'248,
                                                   2 * 311'164'928, 905'981'952, 0, 98'304 / 2},
                                         Published{"qwen3_235b_a22b", 235'093'634'560, 22'190'763'520, 7'997'238'784,
                                                   227'096'395'776, 2 * 622'329'856, 6'702'521'856, 0, 192'512 / 2},
                                         Published{"deepseek_v3", 671'026'419'200, 37'552'297'472, 17'117'648'384,
                                                   653'908'770'816, 2 * 926'679'040, 11'413'547'008, 2'554'331'136, 70'272 / 2},
                                         Published{"deepseek_v3_2", 671'877'944'064, 38'403'822'336, 17'969'173'248,
                                                   653'908'770'816, 2 * 926'679'040, 12'265'071'872, 2'554'331'136,
                                                   70'272 / 2 + 61 * 128}),
                         [](const auto& row) { return std::string(row.param.model); });

TEST(Budget, an_mtp_layer_is_a_decoder_layer_with_a_projection_and_three_norms) {
  for (const auto& [model, published] :
       {std::pair{"deepseek_v3", 11'610'068'224u}, std::pair{"deepseek_v3_2", 11'624'027'648u}}) {
    const ModelConfig with = config_of(model);
    ModelConfig without = with;
    without.mtp_layers = 0;
    const ModelSizes a = model_sizes(with), b = model_sizes(without);
    EXPECT_EQ(a.parameters - b.parameters, published) << model;
    EXPECT_EQ(a.duck_parameters - b.duck_parameters, 11'274'289'152u + 44'040'192u); // routed and shared
    EXPECT_EQ(slice_count(with) - slice_count(without), 257u * 2048 / 16);
    EXPECT_EQ(a.kv_bytes_per_token / 62, b.kv_bytes_per_token / 61);
  }
}

TEST(Budget, with_every_ffn_on_the_ducks_dense_and_shared_ones_move_there) {
  ModelConfig config = config_of("deepseek_v3_2");
  config.mtp_layers = 0;
  const ModelSizes all = model_sizes(config), kept = model_sizes(config, HostFfn::DenseShared);
  EXPECT_EQ(all.parameters, kept.parameters);
  EXPECT_EQ(all.duck_parameters - kept.duck_parameters, 1'189'085'184u + 2'554'331'136u);
  EXPECT_GT(all.duck_bytes, kept.duck_bytes);
  EXPECT_EQ(all.duck_bytes, slice_count(config) * slice_layout(config.hidden).bytes);
}

TEST(Budget, host_bytes_follow_the_checkpoints_own_types) {
  EXPECT_EQ(model_sizes(config_of("smollm2_135m")).host_weight_bytes, 2u * 54'888'768u);
  ModelConfig deepseek = config_of("deepseek_v3_2");
  EXPECT_NEAR(static_cast<double>(model_sizes(deepseek, HostFfn::DenseShared).host_weight_bytes) / 1e9, 20.42, 0.03);
  deepseek.mtp_layers = 0;
  EXPECT_NEAR(static_cast<double>(model_sizes(deepseek, HostFfn::DenseShared).host_weight_bytes) / 1e9, 19.96, 0.02);
}

inventory::Flock flock_of(const std::vector<std::uint64_t>& memory_bytes, inventory::PowerKind power) {
  inventory::Flock flock;
  flock.power.kind = power;
  for (std::size_t i = 0; i < memory_bytes.size(); ++i) {
    inventory::Duck duck;
    duck.name = "duck" + std::to_string(i);
    duck.memory_bytes = memory_bytes[i];
    flock.ducks.push_back(duck);
  }
  return flock;
}

// As the placement does it: what does not fit a small duck goes to the others.
TEST(Budget, a_small_duck_needs_no_more_than_it_has_while_others_have_room) {
  const ModelConfig config = config_of("smollm2_135m");
  const std::uint64_t all = model_sizes(config).duck_bytes, slice = slice_layout(config.hidden).bytes;
  const Budget budget = flock_budget(config, 1024, flock_of({all / 8, all, 0}, inventory::PowerKind::WakeOnLan), 1ull << 40);
  EXPECT_TRUE(check_budget(budget));
  EXPECT_LE(budget.ducks[0].needed, all / 16); // of so little memory a machine's system keeps half
  EXPECT_NEAR(static_cast<double>(budget.ducks[1].needed), static_cast<double>(all) * 15 / 32, static_cast<double>(2 * slice));
  EXPECT_EQ(budget.ducks[1].available, all - inventory::machine_reserve(all));
  EXPECT_EQ(budget.ducks[2].available, 0u); // not said

  const auto small =
      check_budget(flock_budget(config, 1024, flock_of({all / 8, all / 8}, inventory::PowerKind::WakeOnLan), 1ull << 40));
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error().next, HasSubstr("memory_gib"));
}

TEST(Budget, ducks_beside_the_host_share_what_it_leaves) {
  const ModelConfig config = config_of("smollm2_135m");
  const std::uint64_t all = model_sizes(config).duck_bytes;
  const auto flock = flock_of({0, 0, 0}, inventory::PowerKind::Process);
  const std::uint64_t host = flock_budget(config, 1024, flock, 1ull << 40).host_needed;
  EXPECT_TRUE(check_budget(flock_budget(config, 1024, flock, host + all + all / 50)));
  const auto short_of_it = check_budget(flock_budget(config, 1024, flock, host + all / 2));
  ASSERT_FALSE(short_of_it);
  EXPECT_THAT(short_of_it.error().next, Not(HasSubstr("memory_gib"))); // no such limit is set
}

TEST(Budget, index_keys_in_fp8_take_a_quarter) {
  const ModelConfig config = config_of("deepseek_v3_2");
  const auto bytes = [&](inventory::IndexKeys keys) { return model_sizes(config, HostFfn::None, keys).kv_bytes_per_token; };
  EXPECT_EQ(bytes(inventory::IndexKeys::F32) - bytes(inventory::IndexKeys::Fp8),
            static_cast<std::uint64_t>(decoder_layers(config)) * (128 * 4 - (128 + 4)));
}

TEST(Budget, a_model_that_fits_and_figures_nobody_could_tell_are_fine) {
  Budget budget;
  budget.ducks = {{"duck01", 100, 100}, {"duck02", 100, 0}};
  budget.host_needed = 5;
  budget.disk_needed = 1;
  budget.disk_available = 1;
  EXPECT_TRUE(check_budget(budget));
}

TEST(Budget, every_shortage_stands_in_one_error_with_both_figures_and_the_setting_to_change) {
  Budget budget;
  budget.ducks = {{"duck01", 3'000'000'000, 2'000'000'000}, {"duck02", 10, 20}, {"duck03", 11, 10}};
  budget.host_needed = 7'000'000'000;
  budget.host_available = 6'999'999'999;
  budget.disk_needed = 2;
  budget.disk_available = 1;
  budget.context = 8192;
  const auto result = check_budget(budget);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kModelDoesNotFit);
  for (const char* text : {"duck01", "3000000000", "2000000000", "duck03", "8192 tokens", "7000000000", "6999999999", "disk"}) {
    EXPECT_THAT(result.error().message, HasSubstr(text));
  }
  EXPECT_THAT(result.error().message, Not(HasSubstr("duck02")));
  for (const char* text : {"engine.context_length", "model.source", "XDG_CACHE_HOME"})
    EXPECT_THAT(result.error().next, HasSubstr(text));
}

} // namespace
} // namespace ductl::weights
