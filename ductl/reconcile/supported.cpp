#include "ductl/reconcile/supported.hpp"

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
  return {};
}

} // namespace ductl::reconcile
