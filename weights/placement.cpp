#include "weights/placement.hpp"

#include "weights/apportion.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <xxhash.h>

namespace ductl::weights {

namespace {

constexpr std::uint16_t kNobody = 0xFFFF;

using Owners = std::vector<std::uint16_t>; // of one expert, by slice

std::vector<ApportionExpert> experts_of(const ModelConfig& config) {
  std::vector<ApportionExpert> experts;
  for (int layer = 0; layer < decoder_layers(config); ++layer)
    for (int expert = 0; expert < expert_count(config, layer); ++expert)
      experts.push_back(
          {static_cast<std::uint16_t>(layer), static_cast<std::uint16_t>(expert), expert_slices(config, layer, expert)});
  return experts;
}

bool same_shape(const Placement& placement, const ModelConfig& config, const std::string& model_id) {
  if (placement.model_id != model_id || placement.owner.size() != static_cast<std::size_t>(decoder_layers(config))) return false;
  for (int layer = 0; layer < decoder_layers(config); ++layer) {
    const auto& experts = placement.owner[static_cast<std::size_t>(layer)];
    if (experts.size() != static_cast<std::size_t>(expert_count(config, layer))) return false;
    for (int expert = 0; expert < expert_count(config, layer); ++expert)
      if (experts[static_cast<std::size_t>(expert)].size() != static_cast<std::size_t>(expert_slices(config, layer, expert)))
        return false;
  }
  return true;
}

// Who holds each slice now, as numbers of today's ducks; kNobody where the holder is gone. One entry an expert.
std::vector<Owners> present_owners(std::span<const ApportionExpert> experts, std::span<const PlacementDuck> ducks,
                                   const Placement& previous) {
  std::map<std::string_view, std::uint16_t> number;
  for (std::size_t d = 0; d < ducks.size(); ++d) number.emplace(ducks[d].name, static_cast<std::uint16_t>(d));
  std::vector<std::uint16_t> renumbered;
  for (const std::string& name : previous.ducks) {
    const auto found = number.find(name);
    renumbered.push_back(found == number.end() ? kNobody : found->second);
  }
  std::vector<Owners> owners;
  for (const ApportionExpert& expert : experts) {
    Owners& now = owners.emplace_back();
    for (const std::uint16_t owner : previous.owner[expert.layer][expert.expert])
      now.push_back(owner < renumbered.size() ? renumbered[owner] : kNobody);
  }
  return owners;
}

std::vector<int> held_counts(const std::vector<Owners>& owners, std::size_t ducks) {
  std::vector<int> held(owners.size() * ducks, 0);
  for (std::size_t e = 0; e < owners.size(); ++e)
    for (const std::uint16_t owner : owners[e])
      if (owner != kNobody) ++held[e * ducks + owner];
  return held;
}

// Turns counts into owners: holders keep their first slices, what is free is dealt in runs, beginning with a duck that
// rotates with layer and expert.
void deal(const ApportionExpert& expert, std::span<const int> count, Owners& owners) {
  std::vector<int> wanted(count.begin(), count.end());
  for (std::uint16_t& owner : owners) {
    if (owner == kNobody) continue;
    if (wanted[owner] > 0)
      --wanted[owner];
    else
      owner = kNobody;
  }
  const std::uint32_t key = static_cast<std::uint32_t>(expert.layer) << 16 | expert.expert;
  std::size_t duck = XXH3_64bits(&key, sizeof key) % count.size();
  for (std::uint16_t& owner : owners) {
    if (owner != kNobody) continue;
    while (wanted[duck] == 0) duck = (duck + 1) % count.size();
    owner = static_cast<std::uint16_t>(duck);
    --wanted[duck];
  }
}

tl::unexpected<Error> does_not_fit(std::span<const PlacementDuck> ducks, std::uint64_t slices) {
  std::uint64_t room = 0;
  for (const PlacementDuck& duck : ducks) room += std::min(duck.slices_max, slices);
  return fail(ErrorCode::kModelDoesNotFit,
              fmt::format("the model has {} slices, the {} ducks hold {}", slices, ducks.size(), room), {},
              "add ducks or memory to the flock, or choose a smaller model");
}

bool within_limits(const Placement& placement, std::span<const PlacementDuck> ducks) {
  std::vector<std::uint64_t> total(ducks.size(), 0);
  for (const auto& layer : placement.owner)
    for (const auto& expert : layer)
      for (const std::uint16_t owner : expert) ++total[owner];
  for (std::size_t d = 0; d < ducks.size(); ++d)
    if (total[d] > ducks[d].slices_max) return false;
  return true;
}

} // namespace

std::vector<SliceId> Placement::slices_of(int duck) const {
  std::vector<SliceId> slices;
  for (std::size_t layer = 0; layer < owner.size(); ++layer)
    for (std::size_t expert = 0; expert < owner[layer].size(); ++expert)
      for (std::size_t index = 0; index < owner[layer][expert].size(); ++index)
        if (owner[layer][expert][index] == duck)
          slices.push_back(
              {static_cast<std::uint16_t>(layer), static_cast<std::uint16_t>(expert), static_cast<std::uint16_t>(index)});
  return slices;
}

Expected<Placement> place_slices(const ModelConfig& config, const std::string& model_id, std::span<const PlacementDuck> ducks,
                                 const Placement* previous) {
  const std::uint64_t slices = slice_count(config);
  const std::vector<ApportionExpert> experts = experts_of(config);
  std::vector<double> weights;
  std::vector<std::uint64_t> limits;
  for (const PlacementDuck& duck : ducks) weights.push_back(duck.weight), limits.push_back(duck.slices_max);
  const std::vector<double> targets = share_targets(weights, limits, slices);
  if (targets.empty()) return does_not_fit(ducks, slices);

  std::vector<ApportionDuck> shares;
  for (std::size_t d = 0; d < ducks.size(); ++d)
    shares.push_back({XXH3_64bits(ducks[d].name.data(), ducks[d].name.size()), targets[d], ducks[d].slices_max});
  const bool known = previous != nullptr && same_shape(*previous, config, model_id);
  std::vector<Owners> owners;
  if (known)
    owners = present_owners(experts, ducks, *previous);
  else
    for (const ApportionExpert& expert : experts) owners.emplace_back(static_cast<std::size_t>(expert.slices), kNobody);
  const Apportionment counts = apportion(experts, shares, known ? held_counts(owners, ducks.size()) : std::vector<int>{});

  Placement placement;
  placement.model_id = model_id;
  for (const PlacementDuck& duck : ducks) placement.ducks.push_back(duck.name);
  placement.owner.resize(static_cast<std::size_t>(decoder_layers(config)));
  for (std::size_t e = 0; e < experts.size(); ++e) {
    deal(experts[e], std::span(counts.count).subspan(e * ducks.size(), ducks.size()), owners[e]);
    placement.owner[experts[e].layer].push_back(std::move(owners[e]));
  }
  placement.epoch = previous != nullptr ? previous->epoch : 0;
  const bool same_ducks = known && placement.ducks == previous->ducks;
  // Where memory decided, several placements are as good; the one in place costs nothing.
  if (same_ducks && counts.tight && within_limits(*previous, ducks)) return *previous;
  if (previous == nullptr || !(placement == *previous)) ++placement.epoch;
  return placement;
}

} // namespace ductl::weights
