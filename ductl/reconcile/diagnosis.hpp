// From observations to what a person wants to know of each duck: how far it came, since when, why no further, what to do.
// Pure. Works without a model or a placement: what is not known is not asked for.
#pragma once

#include "ductl/reconcile/desired.hpp"
#include "ductl/reconcile/observed.hpp"

#include <chrono>
#include <map>

namespace ductl::reconcile {

enum class Stage { Off, Waking, Dhcp, Loader, Image, Agent, Healthy, Filling, Ready, Serving };
[[nodiscard]] std::string_view to_string(Stage stage);

using WallTime = std::chrono::system_clock::time_point;

struct DuckDiagnosis {
  std::string name;
  Stage stage = Stage::Off;
  std::optional<WallTime> since = {}; // when the duck was first seen in this stage
  std::string reason = {};            // why not further, and what it lacks of what the inventory expects; "" = neither
  std::string next = {};              // the next step for a person
};

struct Diagnosis {
  bool serving = false;    // a token can be had now
  bool degraded = false;   // serving, though not every duck of the inventory is
  std::string reason = {}; // why not serving
  std::string next = {};
  std::vector<DuckDiagnosis> ducks;
};

// Each duck's last known stage and when it was first seen there; kept in the state folder between commands.
struct StageSeen {
  Stage stage = Stage::Off;
  WallTime since = {};
};
using StageHistory = std::map<std::string, StageSeen>;

// `serving_ducks`: names of the ducks in the serving.json of the running engine. desired.ducks[i].slices 0 = not known.
[[nodiscard]] Diagnosis diagnose(const Desired& desired, const Observed& observed, const std::vector<std::string>& serving_ducks);

// What `down` leaves: machines on their way to their agents, which alone can switch them off. Nothing when there are none.
[[nodiscard]] std::optional<Error> booting_left(const Observed& observed);

// Fills in `since`, and returns the history with what was seen at `now`.
[[nodiscard]] StageHistory note_stages(Diagnosis& diagnosis, const StageHistory& before, WallTime now);
// The file's text and back; whatever can't be read is an empty history.
[[nodiscard]] std::string history_text(const StageHistory& history);
[[nodiscard]] StageHistory parse_history(const std::string& text);

} // namespace ductl::reconcile
