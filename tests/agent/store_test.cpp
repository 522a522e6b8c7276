#include "agent/store/slice_store.hpp"

#include "agent/kernels/expert.hpp"
#include "tests/agent/small_model.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace ductl::agent {
namespace {

using weights::SliceId;

Expected<void> put(SliceStore& store, const SmallSlice& slice) { return store.put(slice.id, slice.bytes, slice.digest); }

TEST(SliceStore, HoldsWhatWasPut) {
  const auto store = make_slice_store();
  ASSERT_TRUE(store->set_model(small_model()));
  for (const SliceId id : {SliceId{1, 2, 3}, SliceId{0, 0, 1}, SliceId{1, 0, 0}, SliceId{1, 2, 1}})
    ASSERT_TRUE(put(*store, SmallSlice(id)));
  EXPECT_EQ(store->count(), 4u);
  EXPECT_EQ(store->bytes(), 4 * weights::slice_layout(64).bytes);
  const auto held = store->list(1);
  ASSERT_EQ(held.size(), 3u);
  EXPECT_EQ(held[0].id, (SliceId{1, 0, 0}));
  EXPECT_EQ(held[2].id, (SliceId{1, 2, 3}));
  EXPECT_EQ(held[2].digest, SmallSlice({1, 2, 3}).digest);
  EXPECT_TRUE(store->list(2).empty());
  EXPECT_TRUE(store->list(-1).empty());
}

TEST(SliceStore, RefusesWhatDoesNotBelong) {
  const auto store = make_slice_store();
  const SmallSlice good({1, 3, 0});
  EXPECT_FALSE(put(*store, good)) << "no model yet";
  ASSERT_TRUE(store->set_model(small_model()));
  EXPECT_FALSE(store->put(good.id, good.bytes, good.digest + 1)) << "wrong digest";
  EXPECT_FALSE(store->put(good.id, std::span(good.bytes).first(good.bytes.size() - 1), good.digest)) << "wrong size";
  EXPECT_FALSE(put(*store, SmallSlice({2, 0, 0}))) << "no such layer";
  EXPECT_FALSE(put(*store, SmallSlice({1, 4, 0}))) << "no such expert";
  EXPECT_EQ(store->count(), 0u);
  EXPECT_TRUE(put(*store, good));
}

TEST(SliceStore, RefusesBeyondItsLimit) {
  const auto store = make_slice_store(2 * weights::slice_layout(64).bytes);
  ASSERT_TRUE(store->set_model(small_model()));
  ASSERT_TRUE(put(*store, SmallSlice({0, 0, 0})));
  ASSERT_TRUE(put(*store, SmallSlice({0, 0, 1})));
  const auto third = put(*store, SmallSlice({0, 0, 2}));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kModelDoesNotFit);
  EXPECT_TRUE(put(*store, SmallSlice({0, 0, 1}, 7))) << "in place of one that is held";
}

TEST(SliceStore, AnIndexHasExactlyTheSlicesAskedFor) {
  const auto store = make_slice_store();
  ASSERT_TRUE(store->set_model(small_model()));
  EXPECT_EQ(store->active(), nullptr);
  const std::vector<SliceId> ids = {{1, 3, 0}, {1, 1, 1}, {0, 0, 0}, {1, 1, 0}};
  for (const SliceId id : ids) ASSERT_TRUE(put(*store, SmallSlice(id)));
  ASSERT_TRUE(put(*store, SmallSlice({1, 2, 0})));
  ASSERT_TRUE(store->activate(7, ids));
  const auto index = store->active();
  ASSERT_TRUE(index);
  EXPECT_EQ(index->epoch, 7u);
  EXPECT_EQ(index->hidden, 64);
  ASSERT_EQ(index->layers.size(), 2u);
  EXPECT_EQ(index->layers[0].slices.size(), 1u);
  EXPECT_EQ(index->layers[0].first, (std::vector<std::uint32_t>{0, 1}));
  ASSERT_EQ(index->layers[1].slices.size(), 3u);
  EXPECT_EQ(index->layers[1].first, (std::vector<std::uint32_t>{0, 0, 2, 2, 3}));
  EXPECT_EQ(index->layers[1].fixed_scale, std::vector<float>{4096.0f});
  const ActiveSlice& slice = index->layers[1].slices[1];
  EXPECT_EQ(slice.index, 1);
  const SmallSlice expected({1, 1, 1});
  EXPECT_EQ(std::memcmp(slice.bytes, expected.bytes.data(), expected.bytes.size()), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slice.bytes) % 64, 0u);
}

TEST(SliceStore, GuardFactorsAreThoseOfTheKernels) {
  const auto store = make_slice_store();
  ASSERT_TRUE(store->set_model(small_model()));
  SmallSlice slice({1, 0, 0});
  const auto layout = weights::slice_layout(64);
  const float scale = 0.25f;
  std::memcpy(slice.bytes.data() + layout.down_scale, &scale, sizeof scale);
  for (std::size_t i = layout.down; i < layout.bytes; ++i) slice.bytes[i] = static_cast<std::byte>(i % 64);
  slice.digest = XXH3_64bits(slice.bytes.data(), slice.bytes.size());
  ASSERT_TRUE(put(*store, slice));
  ASSERT_TRUE(store->activate(1, std::vector<SliceId>{slice.id}));
  const auto index = store->active();
  const ActiveLayer& layer = index->layers[1];
  EXPECT_GT(layer.slices[0].guard_factor, 0.0f);
  EXPECT_EQ(layer.slices[0].guard_factor,
            slice_guard_factor(layer.slices[0].bytes, 64, weights::TileFormat::NineBit, layer.fixed_scale.data()));
}

TEST(SliceStore, AnE4m3ModelHasSmallerSlices) {
  const auto store = make_slice_store();
  StoreModel model = small_model();
  model.format = weights::TileFormat::EightBit;
  ASSERT_TRUE(store->set_model(model));
  const auto layout = weights::slice_layout(64, model.format);
  EXPECT_EQ(store->slice_bytes(), layout.bytes);
  EXPECT_FALSE(put(*store, SmallSlice({1, 0, 0}))) << "a slice of fp9";
  std::vector<std::byte> bytes(layout.bytes);
  const float scale = 0.25f;
  std::memcpy(bytes.data() + layout.down_scale, &scale, sizeof scale);
  for (std::size_t i = layout.down; i < layout.bytes; ++i) bytes[i] = static_cast<std::byte>(i % 64);
  const weights::SliceId id{1, 0, 0};
  ASSERT_TRUE(store->put(id, bytes, XXH3_64bits(bytes.data(), bytes.size())));
  ASSERT_TRUE(store->activate(1, std::vector<SliceId>{id}));
  const auto index = store->active();
  EXPECT_EQ(index->format, model.format);
  const ActiveLayer& layer = index->layers[1];
  EXPECT_EQ(layer.slices[0].guard_factor, slice_guard_factor(layer.slices[0].bytes, 64, model.format, layer.fixed_scale.data()));
  ASSERT_TRUE(store->set_model(small_model()));
  EXPECT_EQ(store->count(), 0u) << "the same model in the other form is another one";
}

TEST(SliceStore, ActivationRefusesMissingAndDoubleSlicesAndKeepsTheOldEpoch) {
  const auto store = make_slice_store();
  EXPECT_FALSE(store->activate(1, {})) << "no model";
  ASSERT_TRUE(store->set_model(small_model()));
  ASSERT_TRUE(put(*store, SmallSlice({0, 0, 0})));
  ASSERT_TRUE(store->activate(1, std::vector<SliceId>{{0, 0, 0}}));
  EXPECT_FALSE(store->activate(2, std::vector<SliceId>{{0, 0, 0}, {0, 0, 1}}));
  EXPECT_FALSE(store->activate(2, std::vector<SliceId>{{0, 0, 0}, {0, 0, 0}}));
  EXPECT_EQ(store->active()->epoch, 1u);
  EXPECT_TRUE(store->activate(3, {})) << "a duck without work";
  EXPECT_EQ(store->active()->epoch, 3u);
}

TEST(SliceStore, DroppedSlicesStayWhileAnIndexRefersToThem) {
  const auto store = make_slice_store();
  ASSERT_TRUE(store->set_model(small_model()));
  const SmallSlice slice({1, 1, 1}), other({1, 1, 1}, 9);
  ASSERT_TRUE(put(*store, slice));
  ASSERT_TRUE(store->activate(1, std::vector<SliceId>{slice.id}));
  auto index = store->active();
  const std::byte* bytes = index->layers[1].slices[0].bytes;
  EXPECT_EQ(store->drop(std::vector<SliceId>{slice.id, {0, 0, 0}}), 1u);
  EXPECT_EQ(store->count(), 0u);
  ASSERT_TRUE(put(*store, other)); // must not land in the old one's memory
  EXPECT_EQ(std::memcmp(bytes, slice.bytes.data(), slice.bytes.size()), 0);
  ASSERT_TRUE(store->activate(2, std::vector<SliceId>{other.id}));
  EXPECT_EQ(std::memcmp(bytes, slice.bytes.data(), slice.bytes.size()), 0) << "a round may still hold the old index";
  index = nullptr;
  ASSERT_TRUE(put(*store, SmallSlice({0, 0, 0}))); // now the slot is free for another
  ASSERT_TRUE(store->activate(3, std::vector<SliceId>{{0, 0, 0}}));
  EXPECT_EQ(store->active()->layers[0].slices[0].bytes, bytes);
}

TEST(SliceStore, ANewModelForgetsTheOldOneButNotUnderARound) {
  const auto store = make_slice_store();
  ASSERT_TRUE(store->set_model(small_model()));
  const SmallSlice slice({0, 0, 0});
  ASSERT_TRUE(put(*store, slice));
  ASSERT_TRUE(store->activate(1, std::vector<SliceId>{slice.id}));
  ASSERT_TRUE(store->set_model(small_model()));
  EXPECT_EQ(store->count(), 1u) << "the same again changes nothing";
  const auto index = store->active();
  ASSERT_TRUE(store->set_model(small_model("model-b")));
  EXPECT_EQ(store->model_id(), "model-b");
  EXPECT_EQ(store->count(), 0u);
  EXPECT_EQ(store->active(), nullptr);
  EXPECT_EQ(std::memcmp(index->layers[0].slices[0].bytes, slice.bytes.data(), slice.bytes.size()), 0);
}

TEST(SliceStore, ScrubbingFindsDamageAndGoesRound) {
  const auto store = make_slice_store();
  ASSERT_TRUE(store->set_model(small_model()));
  EXPECT_TRUE(store->scrub(1 << 20).empty()) << "nothing to do";
  std::vector<SliceId> ids;
  for (std::uint16_t i = 0; i < 5; ++i) ids.push_back({1, 1, i});
  for (const SliceId id : ids) ASSERT_TRUE(put(*store, SmallSlice(id)));
  ASSERT_TRUE(store->activate(1, ids));
  const auto index = store->active();
  EXPECT_TRUE(store->scrub(100 * weights::slice_layout(64).bytes).empty());
  EXPECT_EQ(store->active(), index) << "sound slices stay in use";
  const_cast<std::byte*>(index->layers[1].slices[3].bytes)[5] ^= std::byte{4}; // a bit flips
  const std::size_t one = weights::slice_layout(64).bytes;
  std::vector<SliceId> damaged;
  for (int i = 0; i < 3; ++i)
    for (const SliceId& id : store->scrub(2 * one)) damaged.push_back(id); // 6 of 5: all of them
  EXPECT_EQ(damaged, (std::vector<SliceId>{{1, 1, 3}}));
  EXPECT_EQ(store->count(), 4u);
  EXPECT_EQ(store->list(1).size(), 4u);
  EXPECT_EQ(store->active(), nullptr) << "no round may use the damaged one";
  EXPECT_TRUE(store->scrub(100 * one).empty());
  ASSERT_TRUE(put(*store, SmallSlice({1, 1, 3}))); // what `ductl up` does
  ASSERT_TRUE(store->activate(1, ids));
  EXPECT_EQ(store->active()->layers[1].slices.size(), 5u);
}

TEST(SliceStore, DamageInASliceThatNoEpochUsesLeavesTheActiveOnesAlone) {
  const auto store = make_slice_store();
  ASSERT_TRUE(store->set_model(small_model()));
  ASSERT_TRUE(put(*store, SmallSlice({1, 1, 0})));
  ASSERT_TRUE(put(*store, SmallSlice({1, 1, 1})));
  ASSERT_TRUE(store->activate(1, std::vector<SliceId>{{1, 1, 0}, {1, 1, 1}}));
  const std::byte* idle = store->active()->layers[1].slices[1].bytes;
  ASSERT_TRUE(store->activate(2, std::vector<SliceId>{{1, 1, 0}}));
  const_cast<std::byte*>(idle)[5] ^= std::byte{4};
  EXPECT_EQ(store->scrub(1 << 20), (std::vector<SliceId>{{1, 1, 1}}));
  ASSERT_NE(store->active(), nullptr);
  EXPECT_EQ(store->active()->epoch, 2u);
}

TEST(SliceStore, ManyThreadsMayUseIt) {
  const auto store = make_slice_store();
  ASSERT_TRUE(store->set_model(small_model()));
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (std::uint16_t expert = 0; expert < 4; ++expert)
    threads.emplace_back([&, expert] {
      for (int round = 0; round < 20; ++round) {
        std::vector<SliceId> ids;
        for (std::uint16_t i = 0; i < 8; ++i) {
          ids.push_back({1, expert, i});
          if (!put(*store, SmallSlice(ids.back()))) ++failures;
        }
        if (!store->activate(expert + 1u, ids)) ++failures;
        if (const auto index = store->active(); index->layers[1].slices.size() != 8) ++failures;
        if (!store->scrub(4096).empty()) ++failures;
        if (store->drop(ids) != 8) ++failures;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(store->count(), 0u);
}

} // namespace
} // namespace ductl::agent
