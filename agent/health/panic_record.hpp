// What a machine's firmware has kept of the panic that ended an earlier boot (pstore: EFI variables, ERST).
#pragma once

#include "agent/machine/machine_files.hpp"

namespace ductl::agent::health {

// The line of the panic, at most 200 characters; "" when none is kept, nothing where the firmware keeps none. The records are
// removed: they would be told of for ever, and firmware that has no room left for variables may not start its machine again.
[[nodiscard]] std::optional<std::string> take_panic_record(const MachineFiles& files);

} // namespace ductl::agent::health
