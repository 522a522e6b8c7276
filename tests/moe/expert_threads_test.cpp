// ExpertCompute with several threads: the bits of one, whatever the plan, the number of tokens and the moment of a stop.
#include "agent/bench/slice_pool.hpp"
#include "agent/expert_compute.hpp"
#include "agent/kernels/select.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace ductl::agent {
namespace {

constexpr int kHidden = 288, kExperts = 6;
constexpr int kSlices[kExperts] = {9, 1, 0, 4, 12, 2}; // that this duck has of each

// A layer of random slices.
class Layer {
public:
  explicit Layer(weights::TileFormat format) : layout_(weights::slice_layout(kHidden, format)) {
    std::size_t slices = 0;
    for (const int count : kSlices) slices += static_cast<std::size_t>(count);
    bytes_ = wire::AlignedArray<std::byte>(slices * layout_.bytes);
    index_.hidden = kHidden;
    index_.format = format;
    ActiveLayer& layer = index_.layers.emplace_back();
    layer.fixed_scale.assign(static_cast<std::size_t>(layout_.scale_blocks), 0x1p12f);
    layer.first.push_back(0);
    std::mt19937 random(3);
    for (int expert = 0; expert < kExperts; ++expert) {
      for (int i = 0; i < kSlices[expert]; ++i) {
        std::byte* slice = bytes_.data() + layer.slices.size() * layout_.bytes;
        bench::fill_random_slice(layout_, slice, random);
        layer.slices.push_back({static_cast<std::uint16_t>(expert), static_cast<std::uint16_t>(i), slice,
                                slice_guard_factor(slice, kHidden, format, layer.fixed_scale.data())});
      }
      layer.first.push_back(static_cast<std::uint32_t>(layer.slices.size()));
    }
  }
  [[nodiscard]] const ActiveIndex& index() const { return index_; }

private:
  weights::SliceLayout layout_;
  wire::AlignedArray<std::byte> bytes_;
  ActiveIndex index_;
};

std::vector<std::byte> random_message(int tokens, std::mt19937& random) {
  constexpr int kChoices = 3;
  const wire::RequestShape shape{.tokens = tokens, .hidden = kHidden, .choices = tokens * kChoices, .bf16 = false};
  std::vector<std::byte> message(wire::request_bytes(shape));
  wire::RequestWriter writer(message, shape);
  std::normal_distribution<float> normal;
  std::vector<float> x(kHidden);
  for (int t = 0; t < tokens; ++t) {
    for (float& value : x) value = normal(random);
    writer.token(x, kChoices);
    const auto first = static_cast<int>(random() % kExperts);
    for (int i = 0; i < kChoices; ++i) writer.choice((first + i) % kExperts, 0.25f * static_cast<float>(i + 1));
  }
  return message;
}

class Duck {
public:
  Duck(const Layer& layer, const ThreadPlan& plan)
      : index_(layer.index()), compute_(*select_kernels().value(), wire::kTokensMax, plan) {
    compute_.reserve(kHidden, index_.layers[0]);
  }

  // The reply's bytes; none when `between` stopped it.
  std::vector<std::byte> answer(const std::vector<std::byte>& message, const std::function<bool(Instant)>& between) {
    const auto view = wire::RequestView::parse(message);
    EXPECT_TRUE(compute_.gather(*view, index_.layers[0]));
    reply_.clear(view->shape().tokens);
    const int slices = compute_.run(*view, index_, 0, 0, reply_, &Clock::now, between);
    if (slices < 0) return {};
    reply_.finish(1, static_cast<std::uint32_t>(slices));
    return {reply_.message().begin(), reply_.message().end()};
  }

private:
  const ActiveIndex& index_;
  ExpertCompute compute_;
  wire::ReplyBuffer reply_{wire::kTokensMax, kHidden};
};

bool go_on(Instant) { return true; }

const ThreadPlan kPlans[] = {{.threads = 2},
                             {.threads = 3},
                             {.threads = 4},
                             {.threads = 2, .network_apart = false, .own_cores = true},
                             {.threads = 1, .network_apart = true, .own_cores = true},
                             {.threads = 3, .network_apart = true, .own_cores = true}};

class ExpertThreads : public ::testing::TestWithParam<weights::TileFormat> {};

TEST_P(ExpertThreads, GiveTheBitsOfOne) {
  const Layer layer(GetParam());
  Duck one(layer, {});
  for (const ThreadPlan& plan : kPlans) {
    Duck many(layer, plan);
    std::mt19937 random(7);
    for (const int tokens : {1, 2, 3, 4, 5, 17, 64, 1, 3})
      for (int i = 0; i < 4; ++i) {
        const auto message = random_message(tokens, random);
        ASSERT_EQ(many.answer(message, go_on), one.answer(message, go_on)) << text(plan) << ", " << tokens << " tokens";
      }
  }
}

TEST_P(ExpertThreads, AreStoppedAtAnyMomentAndThenWorkOn) {
  const Layer layer(GetParam());
  Duck one(layer, {});
  for (const ThreadPlan& plan : kPlans) {
    Duck many(layer, plan);
    std::mt19937 random(11);
    int stopped = 0;
    for (int round = 0; round < 60; ++round) {
      const auto message = random_message(1 + round % 40, random);
      int asked = 0;
      const auto answer = many.answer(message, [&](Instant) { return ++asked < 1 + round % 5; });
      if (answer.empty())
        ++stopped;
      else
        ASSERT_EQ(answer, one.answer(message, go_on)) << text(plan);
      ASSERT_EQ(many.answer(message, go_on), one.answer(message, go_on)) << text(plan) << " after a stop";
    }
    if (plan.network_apart) {
      EXPECT_GT(stopped, 0) << text(plan); // there `between` is called from the beginning on
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ExpertThreads, ::testing::Values(weights::TileFormat::NineBit, weights::TileFormat::EightBit));

} // namespace
} // namespace ductl::agent
