// A model small enough to be its own oracle: a slice is one number, and a kernel multiplies the hidden state by it.
// The sums and guards obey the real rules (fixed point, rungs, wrapping int32), so what rounds must deliver is known to the bit.
#pragma once

#include "agent/kernels/expert.hpp"
#include "agent/store/slice_store.hpp"
#include "engine/moe/ffn.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace ductl::testing {

struct TinyModel {
  int layers = 2, hidden = 64, experts = 4, slices = 6; // slices of each expert
  int exponent = 16;
};

// A kernel table whose forward adds round(weight * coefficient * x * fixed_scale) to y.
[[nodiscard]] const agent::ExpertKernels& tiny_kernels();

// What duck `duck` of `ducks` holds: every ducks-th slice. Ducks beyond the number of slices hold nothing.
class TinyStore final : public agent::SliceStore {
public:
  TinyStore(const TinyModel& model, int duck, int ducks, std::uint32_t epoch);
  Expected<void> set_model(const agent::StoreModel&) override;
  std::string model_id() const override { return "tiny"; }
  weights::TileFormat format() const override { return weights::TileFormat::NineBit; }
  int layers() const override { return model_.layers; }
  std::size_t slice_bytes() const override { return weights::kSliceAlignment; }
  Expected<void> put(weights::SliceId, std::span<const std::byte>, weights::SliceDigest) override;
  std::size_t drop(std::span<const weights::SliceId>) override { return 0; }
  std::vector<weights::HeldSlice> list(int) const override { return {}; }
  std::uint64_t count() const override;
  std::uint64_t bytes() const override { return count() * weights::kSliceAlignment; }
  std::vector<weights::SliceId> scrub(std::uint64_t) override { return {}; }
  Expected<void> activate(std::uint32_t epoch, std::span<const weights::SliceId>) override;
  std::shared_ptr<const agent::ActiveIndex> active() const override { return index_; }

private:
  TinyModel model_;
  std::vector<std::byte> storage_;
  std::shared_ptr<agent::ActiveIndex> index_;
};

// A request that owns what it points to.
struct TinyRequest {
  engine::FfnRequest request;
  std::vector<float> x;
  std::vector<std::vector<engine::ExpertChoice>> choices;
  std::vector<std::span<const engine::ExpertChoice>> choice_spans;
  TinyRequest() = default;
  TinyRequest(TinyRequest&&) = default;
  TinyRequest& operator=(TinyRequest&&) = default;
};
[[nodiscard]] TinyRequest random_request(const TinyModel& model, int layer, int lane, int tokens, std::mt19937_64& random);
// Multiplies one token's hidden state.
void amplify(TinyRequest& request, const TinyModel& model, int token, float factor);

// The oracle: what any flock must answer, computed in one go. `rungs` (may be null) gets the highest rung that was needed; a
// token beyond the last rung is left as NaN.
[[nodiscard]] std::vector<float> expected_sum(const TinyModel& model, const engine::FfnRequest& request, int* rungs = nullptr);

[[nodiscard]] weights::Manifest tiny_manifest(const TinyModel& model);
[[nodiscard]] weights::ModelConfig tiny_config(const TinyModel& model);

} // namespace ductl::testing
