// Filling ducks with the slices that a placement gives them: compare digests, send what is missing or wrong, drop what is
// not wanted, activate the epoch. Sends nothing to a duck that already holds what it should.
#pragma once

#include "agent/client/control_client.hpp"
#include "weights/manifest.hpp"
#include "weights/placement.hpp"

#include <functional>

namespace ductl::agent {

struct FillPlan { // of one duck, found by comparing
  std::string duck;
  std::vector<weights::SliceId> send, drop;
  std::uint64_t send_bytes = 0;
  bool set_model = false; // the duck holds another model or none
  bool activate = false;  // its active epoch or set of slices is not the placement's
  [[nodiscard]] bool empty() const { return send.empty() && drop.empty() && !set_model && !activate; }
};
[[nodiscard]] Expected<FillPlan> plan_fill(ControlClient& client, const Hello& hello, const weights::Manifest& manifest,
                                           const weights::Placement& placement, int duck);

struct FillProgress {
  std::uint64_t bytes_sent = 0, bytes_total = 0;
  int slices_sent = 0, slices_total = 0;
};
// Packs and sends. Reports after each body. Re-checks nothing: plan_fill again to see that it is done. `stop` is asked before
// each body: once it is true the outcome is kCancelled, and what was sent stays.
[[nodiscard]] Expected<void> fill_duck(ControlClient& client, const FillPlan& plan, const weights::Checkpoint& checkpoint,
                                       const weights::Manifest& manifest, const weights::Placement& placement, int duck,
                                       const std::function<void(const FillProgress&)>& progress,
                                       const std::function<bool()>& stop = {});

[[nodiscard]] StoreModel store_model(const weights::Manifest& manifest);

} // namespace ductl::agent
