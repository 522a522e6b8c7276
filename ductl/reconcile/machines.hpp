// The hands on ducks that are machines: wake, adopt, look at their health, reboot, switch off. I/O; what is sent when and what a
// silence means is decided elsewhere (power/wake_schedule, boot/boot_diagnosis).
//
// act() blocks until the duck was seen to be where the action wants it, or a diagnosis gives it up. From several threads, for
// different ducks. Boots are served by this process from the first duck that is to boot until this object goes, or by a
// `ductl netboot` that runs already.
#pragma once

#include "agent/client/state_folder.hpp"
#include "ductl/reconcile/planner.hpp"

#include <functional>
#include <memory>

namespace ductl::reconcile {

class Machines {
public:
  Machines(const inventory::Flock& flock, const agent::StateFolder& state, std::string flock_key);
  ~Machines();
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  // Asked while ducks are waited for: true ends that with kCancelled.
  std::function<bool()> interrupted = [] { return false; };
  // How far a duck that is waited for has come; from the threads that wait.
  std::function<void(const std::string& duck, const std::string& how_far)> on_boot = [](const std::string&, const std::string&) {
  };

  // What booting the plan's ducks would fail with and can be known before: the image, the ports, the links. Begins to serve.
  [[nodiscard]] Expected<void> check(const Plan& plan);
  [[nodiscard]] Expected<void> act(const Action& action, std::size_t duck, const std::string& wanted_image);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What keeps weights off a duck that came up: failed checks of its memory, processor or link, for a person. Nothing when there
// are none. Pure.
[[nodiscard]] std::optional<Error> health_fault(const std::string& duck, const agent::Health& health);

} // namespace ductl::reconcile
