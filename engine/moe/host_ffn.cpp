#include "engine/moe/host_ffn.hpp"

#include "engine/attention/dense_batch.hpp"
#include "engine/attention/kernels/kernels.hpp"
#include "engine/model/host_weights.hpp"
#include "inventory/clock.hpp"
#include "weights/slice.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ductl::engine {
namespace {

constexpr int kTokensMax = 64;

struct Expert {
  DenseMatrix gate, up, down;
};

// The tokens of a request that one expert works for. Their rows lie together in the buffers.
struct Group {
  int expert = 0, rows = 0;
  int first_row = 0;             // in x and out, rows of `hidden` floats
  std::size_t first_channel = 0; // in gate and up, rows of the expert's own width
  const float* x = nullptr;
};

class HostFfn final : public Ffn {
public:
  HostFfn(const weights::ModelConfig& config, int threads) : config_(config), pool_(threads) {}
  Expected<void> load(const weights::Checkpoint& checkpoint);

  [[nodiscard]] int tokens_max() const override { return kTokensMax; }
  [[nodiscard]] Expected<void> start(const FfnRequest& request) override;
  [[nodiscard]] Expected<RoundTimes> finish(int lane, std::span<float> y) override;

private:
  void allocate();
  void group_rows(const FfnRequest& request);
  void gather(const FfnRequest& request);
  void run_experts(const FfnRequest& request);
  void add_up(const FfnRequest& request, std::span<float> y);

  const weights::ModelConfig& config_;
  ThreadPool pool_;
  std::vector<std::vector<Expert>> experts_; // [layer][expert]
  std::vector<FfnRequest> requests_;         // by lane; grows with the first request of a lane
  std::vector<Group> groups_;                // experts with work, ascending
  std::vector<int> count_;                   // [expert]
  std::vector<int> row_of_;                  // of each token's choices, in order: its row in x and out
  std::vector<DenseTask> tasks_;
  std::vector<float> x_, gate_, up_, out_;
};

Expected<void> HostFfn::load(const weights::Checkpoint& checkpoint) {
  if (auto checked = weights::check_ffn_tensors(checkpoint); !checked) return checked;
  std::vector<NamedMatrix> matrices;
  for (int layer = 0; layer < weights::decoder_layers(config_); ++layer) {
    auto& experts = experts_.emplace_back();
    for (int expert = 0; expert < weights::expert_count(config_, layer); ++expert) {
      const auto found = weights::expert_weights(checkpoint, layer, expert);
      if (!found) return tl::unexpected(found.error());
      for (const weights::MatrixView* view : {&found->gate, &found->up, &found->down})
        matrices.push_back({view->name, dense_matrix(*view)});
      experts.push_back({dense_matrix(found->gate), dense_matrix(found->up), dense_matrix(found->down)});
    }
  }
  if (auto finite = check_finite(matrices, pool_); !finite) return finite;
  allocate();
  return {};
}

// For the widest layer with a full batch.
void HostFfn::allocate() {
  std::size_t rows = 0, channels = 0, experts = 0;
  for (int layer = 0; layer < weights::decoder_layers(config_); ++layer) {
    const bool moe = weights::is_moe_layer(config_, layer);
    const int shared = weights::shared_expert(config_, layer);
    const std::size_t routed = moe ? std::size_t(config_.moe.experts_per_token) : 1;
    std::size_t a_token = routed * std::size_t(weights::expert_channels(config_, layer, 0));
    if (shared >= 0) a_token += std::size_t(weights::expert_channels(config_, layer, shared));
    rows = std::max(rows, kTokensMax * (routed + (shared >= 0 ? 1 : 0)));
    channels = std::max(channels, kTokensMax * a_token);
    experts = std::max(experts, experts_[std::size_t(layer)].size());
  }
  count_.resize(experts);
  groups_.reserve(experts);
  tasks_.reserve(2 * experts);
  row_of_.reserve(rows);
  x_.resize(rows * std::size_t(config_.hidden));
  out_.resize(x_.size());
  gate_.resize(channels);
  up_.resize(channels);
}

Expected<void> HostFfn::start(const FfnRequest& request) {
  assert(request.tokens >= 1 && request.tokens <= kTokensMax);
  if (requests_.size() <= std::size_t(request.lane)) requests_.resize(std::size_t(request.lane) + 1);
  requests_[std::size_t(request.lane)] = request;
  return {};
}

// Which expert has how many rows, and which row each token's choices get: by expert, then by token.
void HostFfn::group_rows(const FfnRequest& request) {
  std::fill(count_.begin(), count_.end(), 0);
  for (const auto& choices : request.experts)
    for (const ExpertChoice& choice : choices) ++count_[choice.expert];
  groups_.clear();
  int row = 0;
  std::size_t channel = 0;
  for (int expert = 0; expert < int(count_.size()); ++expert) {
    int& count = count_[std::size_t(expert)];
    if (count == 0) continue;
    groups_.push_back({expert, count, row, channel, nullptr});
    channel += std::size_t(count) * std::size_t(experts_[std::size_t(request.layer)][std::size_t(expert)].gate.rows);
    row += std::exchange(count, row); // from here on: the expert's next row
  }
  row_of_.clear();
  for (const auto& choices : request.experts)
    for (const ExpertChoice& choice : choices) row_of_.push_back(count_[choice.expert]++);
}

// Every group's rows of x together. A group of all tokens reads them where they are.
void HostFfn::gather(const FfnRequest& request) {
  const auto hidden = std::size_t(config_.hidden);
  for (Group& group : groups_)
    group.x = group.rows == request.tokens ? request.x.data() : x_.data() + std::size_t(group.first_row) * hidden;
  std::size_t next = 0;
  for (std::size_t token = 0; token < request.experts.size(); ++token)
    for (std::size_t k = 0; k < request.experts[token].size(); ++k)
      std::copy_n(request.x.data() + token * hidden, hidden, x_.data() + std::size_t(row_of_[next++]) * hidden);
}

void HostFfn::run_experts(const FfnRequest& request) {
  const std::vector<Expert>& experts = experts_[std::size_t(request.layer)];
  tasks_.clear();
  for (const Group& group : groups_) {
    const Expert& e = experts[std::size_t(group.expert)];
    tasks_.push_back({e.gate, group.rows, group.x, config_.hidden, gate_.data() + group.first_channel, e.gate.rows});
    tasks_.push_back({e.up, group.rows, group.x, config_.hidden, up_.data() + group.first_channel, e.up.rows});
  }
  run_products(pool_, tasks_);
  const Group& last = groups_.back();
  const auto channels = int(last.first_channel) + last.rows * experts[std::size_t(last.expert)].gate.rows;
  constexpr int kChannelsPerPiece = 16384;
  pool_.run(channels, kChannelsPerPiece,
            [&](int begin, int end, int) { kernels().silu_multiply(gate_.data() + begin, up_.data() + begin, end - begin); });
  tasks_.clear();
  for (const Group& group : groups_) {
    const Expert& e = experts[std::size_t(group.expert)];
    tasks_.push_back({e.down, group.rows, gate_.data() + group.first_channel, e.down.columns,
                      out_.data() + std::size_t(group.first_row) * std::size_t(config_.hidden), config_.hidden});
  }
  run_products(pool_, tasks_);
}

// A token's sum runs over its choices in router order, whatever else is in the batch.
void HostFfn::add_up(const FfnRequest& request, std::span<float> y) {
  const auto hidden = std::size_t(config_.hidden);
  std::size_t next = 0;
  for (std::size_t token = 0; token < request.experts.size(); ++token) {
    float* sum = y.data() + token * hidden;
    std::fill_n(sum, hidden, 0.0F);
    for (const ExpertChoice& choice : request.experts[token]) {
      const float* row = out_.data() + std::size_t(row_of_[next++]) * hidden;
      for (std::size_t i = 0; i < hidden; ++i) sum[i] += choice.weight * row[i];
    }
  }
}

Expected<RoundTimes> HostFfn::finish(int lane, std::span<float> y) {
  const Instant begun = Clock::now();
  const FfnRequest& request = requests_[std::size_t(lane)];
  assert(y.size() == std::size_t(request.tokens) * std::size_t(config_.hidden));
  group_rows(request);
  gather(request);
  run_experts(request);
  add_up(request, y);
  RoundTimes times;
  times.compute_ns = Duration(Clock::now() - begun).count();
  return times;
}

} // namespace

Expected<std::unique_ptr<Ffn>> make_host_ffn(const weights::Checkpoint& checkpoint, int threads) {
  auto ffn = std::make_unique<HostFfn>(checkpoint.config(), threads);
  if (auto loaded = ffn->load(checkpoint); !loaded) return tl::unexpected(loaded.error());
  return ffn;
}

} // namespace ductl::engine
