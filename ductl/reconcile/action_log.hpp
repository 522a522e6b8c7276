// What ductl does to a flock, in log/ductl.log of its state folder: a line as an action begins, with its reason, and one as it
// ends; every error with all its parts. One writer a flock: whoever holds the StateLock. From any thread, one call at a time.
#pragma once

#include "agent/client/state_folder.hpp"
#include "ductl/reconcile/reconciler.hpp"

#include <string_view>

namespace ductl::reconcile {

class ActionLog {
public:
  [[nodiscard]] static Expected<ActionLog> open(const agent::StateFolder& state);
  ActionLog() = default; // writes nowhere

  void walk(std::string_view verb, const std::string& flock) const;
  void begin(const Action& action) const;
  void end(const Action& action, const Expected<std::uint64_t>& result) const;
  void finish(const ReconcileReport& report) const;

private:
  bool open_ = false;
};

inline constexpr const char* kOwnProcess = "ductl"; // its log file's name

} // namespace ductl::reconcile
