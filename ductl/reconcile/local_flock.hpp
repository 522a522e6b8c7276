// A flock as this machine holds it: inventory, state folder, key, power driver, and the real eyes and hands of the reconciler.
//
// The hands start and stop duck-engine, and duck-agent where ducks are processes (run files in the state folder); where they are
// machines, machines.hpp has the hands on them. They talk to agents with one control client a call, and pack and send slices.
// Serving or filling needs a FlockModel; looking and stopping does not.
#pragma once

#include "ductl/reconcile/flock_model.hpp"
#include "ductl/reconcile/reconciler.hpp"

namespace ductl::reconcile {

class LocalFlock {
public:
  // Writes nothing; takes the flock key where there is one. `folder` is usually agent::state_folder(flock.name).
  LocalFlock(inventory::Flock flock, agent::StateFolder folder);
  ~LocalFlock();
  LocalFlock(const LocalFlock&) = delete;
  LocalFlock& operator=(const LocalFlock&) = delete;

  // Makes state folder and key where they are missing. Before anything that writes.
  [[nodiscard]] Expected<void> prepare();
  // What follows fills with, and compares against, this model; must outlive its use. Null = none.
  void use_model(const FlockModel* model);
  void ask_for_stats(bool stats);
  // Progress of one duck's filling; from the threads that fill.
  void on_fill(std::function<void(const std::string& duck, const agent::FillProgress&)> callback);
  // How far a machine that is waited for has come; from the threads that wait. After prepare().
  void on_boot(std::function<void(const std::string& duck, const std::string& how_far)> callback);
  // Asked while the engine is started or a duck filled, from any thread: true ends that with kCancelled.
  void on_interrupt(std::function<bool()> interrupted);

  [[nodiscard]] FlockHands& hands();
  // What starting these ducks would fail with and can be known before; the first of them that has such a fault. Where machines
  // are to boot, boots are served from now on.
  [[nodiscard]] Expected<void> check_starts(const Plan& plan) const;
  [[nodiscard]] const inventory::Flock& flock() const;
  [[nodiscard]] const agent::StateFolder& state() const;

  // Names of the ducks that serving.json gives to the engine; empty when there is none.
  [[nodiscard]] std::vector<std::string> serving_ducks() const;
  // Memory that our processes hold, and would give back.
  [[nodiscard]] std::uint64_t private_bytes() const;
  // After everything was stopped: what says that something might run. Key, placement and logs stay.
  void forget_running();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr const char* kEngineProcess = "duck-engine"; // its run and log files' name

} // namespace ductl::reconcile
