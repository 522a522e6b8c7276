// A duck on the lossy network: the product's DuckRound and ExpertCompute, with computing that takes virtual time.
#pragma once

#include "agent/expert_compute.hpp"
#include "agent/wire/duck_round.hpp"
#include "tests/moe/support/lossy_network.hpp"
#include "tests/moe/support/tiny_model.hpp"

namespace ductl::testing {

class SimulatedDuck {
public:
  SimulatedDuck(LossyNetwork& network, agent::Endpoint local, const wire::DuckSession& session, const TinyModel& model,
                int ducks);
  void die() { alive_ = false; }     // hears and says nothing any more
  void hang() { computes_ = false; } // hears, but never finishes
  // Takes frames up to so many bytes only, as over a path whose MTU is smaller than either end believes.
  void hear_at_most(std::size_t bytes) { heard_bytes_max_ = bytes; }
  [[nodiscard]] const wire::DuckRoundCounts& counts() const { return round_.counts(); }

private:
  void hear(agent::Endpoint from, std::span<const std::byte> frame);
  void speak();
  void work();

  LossyNetwork& network_;
  agent::Endpoint local_;
  TinyStore store_;
  agent::ExpertCompute compute_;
  wire::DuckRound round_;
  bool alive_ = true, computes_ = true, computing_ = false;
  std::size_t heard_bytes_max_ = ~std::size_t{0};
};

} // namespace ductl::testing
