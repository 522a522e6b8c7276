#include "ductl/reconcile/supported.hpp"

#include "ductl/reconcile/local_flock.hpp"

#include <fmt/format.h>

namespace ductl::reconcile {

Expected<void> check_supported(const inventory::Flock& flock) {
  std::vector<Error> settings = inventory::settings_not_carried_out(flock);
  if (!settings.empty()) return tl::unexpected(std::move(settings.front()));
  for (const inventory::Duck& duck : flock.ducks) {
    // The state folder keeps run and log files by process name, and these names are taken.
    if (duck.name != kEngineProcess && duck.name != "ductl") continue;
    return fail(ErrorCode::kInventoryValue, fmt::format("a duck can't be called {}", duck.name), flock.file.string(),
                "give it another name");
  }
  return {};
}

} // namespace ductl::reconcile
