#include "ductl/reconcile/supported.hpp"

#include "ductl/reconcile/local_flock.hpp"

#include <fmt/format.h>

namespace ductl::reconcile {

Expected<void> check_supported(const inventory::Flock& flock) {
  const std::vector<Error> settings = inventory::settings_not_carried_out(flock);
  if (!settings.empty()) { // all of them at once
    Error all = settings.front();
    for (std::size_t i = 1; i < settings.size(); ++i) {
      all.message += "; " + settings[i].message;
      all.next += "; " + settings[i].next;
    }
    return tl::unexpected(std::move(all));
  }
  for (const inventory::Duck& duck : flock.ducks) {
    // The state folder keeps run and log files by process name, and these names are taken.
    if (duck.name != kEngineProcess && duck.name != "ductl") continue;
    return fail(ErrorCode::kInventoryValue, fmt::format("a duck can't be called {}", duck.name), flock.file.string(),
                "give it another name");
  }
  return {};
}

} // namespace ductl::reconcile
