// What an inventory may ask for and this version cannot drive: refused by name before anything is done.
#pragma once

#include "inventory/inventory.hpp"

namespace ductl::reconcile {

[[nodiscard]] Expected<void> check_supported(const inventory::Flock& flock);

} // namespace ductl::reconcile
