// A flock for one command: N agents on loopback with kernel-chosen ports, a random name, its own key and state folder under
// $TMPDIR. Filled, without an engine of its own. Ends with lower(), or else with its object, whatever happened; two of them never
// hear each other.
#pragma once

#include "ductl/reconcile/raise.hpp"

namespace ductl::reconcile {

inline constexpr int kTemporaryDucksMax = 64;

// The inventory of such a flock; `token` (random) names it and chooses its 127.21.x subnet.
[[nodiscard]] inventory::Flock temporary_inventory(std::uint32_t token, int ducks, const std::string& model_source);

class TemporaryFlock {
public:
  [[nodiscard]] static Expected<std::unique_ptr<TemporaryFlock>> make(int ducks, const std::string& model_source);
  ~TemporaryFlock(); // lower(), where it was not asked for
  TemporaryFlock(const TemporaryFlock&) = delete;
  TemporaryFlock& operator=(const TemporaryFlock&) = delete;

  [[nodiscard]] ReconcileReport raise(WalkOptions walk);
  // Stops it and removes its folder. What it could not stop is told, and the folder stays: with its run files, logs and key.
  [[nodiscard]] ReconcileReport lower();
  // The ends of its logs, those of processes that have ended first, each under a line with its name: what an error that names a
  // log means, for when the folder is about to go. Empty lines and empty logs are left out.
  [[nodiscard]] std::string last_words() const;
  [[nodiscard]] const agent::StateFolder& state() const { return flock_.state(); }

private:
  TemporaryFlock(inventory::Flock flock, agent::StateFolder folder) : flock_(std::move(flock), std::move(folder)) {}
  LocalFlock flock_;
  bool lowered_ = false;
};

} // namespace ductl::reconcile
