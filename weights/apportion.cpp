#include "weights/apportion.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <xxhash.h>

namespace ductl::weights {

namespace {

constexpr double kEpsilon = 1e-9;            // of shares that are whole but for rounding
constexpr double kToleratedFraction = 0.005; // of a total, before a slice that somebody holds is moved for balance

std::uint64_t hash_of(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const std::uint64_t fields[3] = {a, b, c};
  return XXH3_64bits(fields, sizeof fields);
}

class Apportioner {
public:
  Apportioner(std::span<const ApportionExpert> experts, std::span<const ApportionDuck> ducks, std::span<const int> held)
      : experts_(experts),
        ducks_(ducks),
        held_(held),
        count_(experts.size() * ducks.size(), 0),
        total_(ducks.size(), 0.0),
        running_(ducks.size(), 0.0),
        floors_left_(ducks.size(), 0.0),
        tie_(ducks.size(), 0),
        newcomer_(ducks.size(), !held.empty()) {
    for (const ApportionExpert& expert : experts) slices_ += expert.slices;
    for (std::size_t e = 0; e < experts.size(); ++e)
      for (std::size_t d = 0; d < ducks.size(); ++d)
        floors_left_[d] += low(e, d), newcomer_[d] = newcomer_[d] && this->held(e, d) == 0;
  }

  Apportionment run() {
    for (std::size_t e = 0; e < experts_.size(); ++e) apportion_expert(e);
    balance();
    relieve();
    return {std::move(count_), tight_};
  }

private:
  [[nodiscard]] double quota(std::size_t e, std::size_t d) const { return experts_[e].slices * (ducks_[d].target / slices_); }
  [[nodiscard]] int low(std::size_t e, std::size_t d) const { return static_cast<int>(std::floor(quota(e, d) + kEpsilon)); }
  [[nodiscard]] int high(std::size_t e, std::size_t d) const { return static_cast<int>(std::ceil(quota(e, d) - kEpsilon)); }
  [[nodiscard]] int held(std::size_t e, std::size_t d) const { return held_.empty() ? 0 : held_[e * ducks_.size() + d]; }
  int& count(std::size_t e, std::size_t d) { return count_[e * ducks_.size() + d]; }
  [[nodiscard]] double limit(std::size_t d) const { return static_cast<double>(ducks_[d].slices_max); }
  [[nodiscard]] double surplus(std::size_t d) const { return total_[d] - ducks_[d].target; }
  [[nodiscard]] double tolerance(std::size_t d) const {
    return held_.empty() ? 1.0 : std::max(2.0, kToleratedFraction * ducks_[d].target);
  }

  // The duck that `eligible` accepts with the highest key; ties go by this expert's hash. -1 if none.
  template <class Eligible, class Key> int best(const Eligible& eligible, const Key& key) const {
    int found = -1;
    double found_key = 0;
    for (std::size_t d = 0; d < ducks_.size(); ++d) {
      if (!eligible(d)) continue;
      const double duck_key = key(d);
      const bool better = found < 0 || duck_key > found_key + kEpsilon ||
                          (duck_key > found_key - kEpsilon && tie_[d] > tie_[static_cast<std::size_t>(found)]);
      if (!better) continue;
      found = static_cast<int>(d);
      found_key = duck_key;
    }
    return found;
  }

  void set_ties(std::size_t e) {
    for (std::size_t d = 0; d < ducks_.size(); ++d) tie_[d] = hash_of(experts_[e].layer, experts_[e].expert, ducks_[d].name_hash);
  }

  // Counts of one expert: what is held, clamped to the bounds; then up or down to the number of slices. Who is behind (or
  // ahead of) its share of the experts so far comes first.
  void apportion_expert(std::size_t e) {
    set_ties(e);
    int sum = 0;
    for (std::size_t d = 0; d < ducks_.size(); ++d) {
      running_[d] += quota(e, d);
      floors_left_[d] -= low(e, d);
      count(e, d) = std::clamp(held(e, d), low(e, d), high(e, d));
      total_[d] += count(e, d);
      sum += count(e, d);
    }
    const auto behind = [this](std::size_t d) { return running_[d] - total_[d]; };
    const auto ahead = [this](std::size_t d) { return total_[d] - running_[d]; };
    const auto has_room = [this](std::size_t d) { return total_[d] + floors_left_[d] < limit(d); };
    for (; sum < experts_[e].slices; ++sum) {
      int d = best([&](std::size_t i) { return count(e, i) < high(e, i) && has_room(i); }, behind);
      if (d < 0) {
        tight_ = true;
        d = best(has_room, behind);
      }
      if (d < 0) d = best([](std::size_t) { return true; }, behind); // relieve() finds a place
      give(e, static_cast<std::size_t>(d), 1);
    }
    for (; sum > experts_[e].slices; --sum) {
      // What nobody would have had to move is taken back first.
      int d = best([&](std::size_t i) { return count(e, i) > low(e, i) && count(e, i) > held(e, i); }, ahead);
      if (d < 0) d = best([&](std::size_t i) { return count(e, i) > low(e, i); }, ahead);
      give(e, static_cast<std::size_t>(d), -1);
    }
  }

  void give(std::size_t e, std::size_t d, int slices) {
    count(e, d) += slices;
    total_[d] += slices;
  }

  // Single slices go from who has too many to who has too few, within floor and ceil. First such that nothing moves that
  // would otherwise stay (who leaves a slice free, and who takes a free one, is open); then to ducks that are new, which
  // must get their share from somebody; then, only where totals are beyond the tolerance, between anybody. Every step
  // brings the totals nearer to the targets, so this ends; with nothing left to do it is where the next call begins.
  enum class Cost { Nothing, Newcomers, Anything };

  void balance() {
    const std::vector<std::size_t> order = shuffled();
    for (const Cost cost : {Cost::Nothing, Cost::Newcomers, Cost::Nothing, Cost::Anything}) {
      bool moved = cost != Cost::Anything || !balanced();
      while (moved) {
        moved = false;
        for (const std::size_t e : order)
          while (balance_expert(e, cost)) moved = true;
      }
    }
  }

  bool balance_expert(std::size_t e, Cost cost) {
    set_ties(e);
    const auto may_give = [&](std::size_t d) { return count(e, d) > low(e, d); };
    const auto may_take = [&](std::size_t d) { return count(e, d) < high(e, d) && total_[d] < limit(d); };
    const auto most = [this](std::size_t d) { return surplus(d); };
    const auto least = [this](std::size_t d) { return -surplus(d); };
    if (cost == Cost::Newcomers)
      return move_one(e, cost, best(may_give, most), best([&](std::size_t d) { return may_take(d) && newcomer_[d]; }, least));
    if (cost == Cost::Anything) return move_one(e, cost, best(may_give, most), best(may_take, least));
    // Free of cost: the giver does not hold it yet, or the taker does still.
    const int giver = best([&](std::size_t d) { return may_give(d) && count(e, d) > held(e, d); }, most);
    if (move_one(e, cost, giver, best(may_take, least))) return true;
    const int taker = best([&](std::size_t d) { return may_take(d) && count(e, d) < held(e, d); }, least);
    return move_one(e, cost, best(may_give, most), taker);
  }

  bool move_one(std::size_t e, Cost cost, int giver, int taker) {
    if (giver < 0 || taker < 0) return false;
    const auto from = static_cast<std::size_t>(giver), to = static_cast<std::size_t>(taker);
    if (surplus(from) - surplus(to) <= 1 + kEpsilon) return false;
    if (cost == Cost::Newcomers && -surplus(to) <= 1) return false;
    if (cost == Cost::Anything && surplus(from) <= tolerance(from) && -surplus(to) <= tolerance(to) &&
        total_[from] <= limit(from))
      return false;
    give(e, from, -1);
    give(e, to, 1);
    return true;
  }

  [[nodiscard]] bool balanced() const {
    for (std::size_t d = 0; d < ducks_.size(); ++d)
      if (std::fabs(surplus(d)) > tolerance(d) || total_[d] > limit(d)) return false;
    return true;
  }

  // Memory comes before floor and ceil.
  void relieve() {
    for (std::size_t from = 0; from < ducks_.size(); ++from)
      for (std::size_t e = 0; e < experts_.size() && total_[from] > limit(from); ++e) {
        set_ties(e);
        while (count(e, from) > 0 && total_[from] > limit(from)) {
          const int to = best([&](std::size_t d) { return total_[d] < limit(d); }, [this](std::size_t d) { return -surplus(d); });
          if (to < 0) return; // share_targets() made sure that this cannot be
          tight_ = true;
          give(e, from, -1);
          give(e, static_cast<std::size_t>(to), 1);
        }
      }
  }

  // Experts in an order that spreads moves over layers.
  [[nodiscard]] std::vector<std::size_t> shuffled() const {
    std::vector<std::pair<std::uint64_t, std::size_t>> keyed;
    for (std::size_t e = 0; e < experts_.size(); ++e) keyed.emplace_back(hash_of(experts_[e].layer, experts_[e].expert, 0), e);
    std::sort(keyed.begin(), keyed.end());
    std::vector<std::size_t> order;
    for (const auto& [key, e] : keyed) order.push_back(e);
    return order;
  }

  std::span<const ApportionExpert> experts_;
  std::span<const ApportionDuck> ducks_;
  std::span<const int> held_;
  std::vector<int> count_;
  std::vector<double> total_;       // slices a duck has so far
  std::vector<double> running_;     // and what its share of the experts so far is
  std::vector<double> floors_left_; // what it will get at least from the experts to come
  std::vector<std::uint64_t> tie_;
  std::vector<bool> newcomer_; // holds nothing, while others do
  double slices_ = 0;
  bool tight_ = false;
};

} // namespace

std::vector<double> share_targets(std::span<const double> weights, std::span<const std::uint64_t> slices_max,
                                  std::uint64_t slices) {
  std::vector<double> target(weights.size(), 0.0);
  std::vector<bool> full(weights.size(), false);
  for (std::size_t round = 0; round <= weights.size(); ++round) {
    double left = static_cast<double>(slices), weight = 0;
    for (std::size_t d = 0; d < weights.size(); ++d) {
      if (full[d])
        left -= target[d];
      else
        weight += weights[d];
    }
    bool changed = false;
    for (std::size_t d = 0; d < weights.size(); ++d) {
      if (full[d]) continue;
      target[d] = weight > 0 ? left * weights[d] / weight : 0.0;
      if (target[d] <= static_cast<double>(slices_max[d])) continue;
      target[d] = static_cast<double>(slices_max[d]);
      full[d] = changed = true;
    }
    if (changed) continue;
    const double sum = std::accumulate(target.begin(), target.end(), 0.0);
    if (sum < static_cast<double>(slices) - 0.5) return {};
    return target;
  }
  return {};
}

Apportionment apportion(std::span<const ApportionExpert> experts, std::span<const ApportionDuck> ducks,
                        std::span<const int> held) {
  return Apportioner(experts, ducks, held).run();
}

} // namespace ductl::weights
