#include "ductl/reconcile/supported.hpp"

#include <fmt/format.h>

namespace ductl::reconcile {

Expected<void> check_supported(const inventory::Flock& flock) {
  const auto refuse = [&](const std::string& what, const std::string& instead) -> Expected<void> {
    return fail(ErrorCode::kUsage, what + " is not in this version", flock.file.string(), instead);
  };
  using namespace inventory;
  if (flock.power.kind == PowerKind::WakeOnLan)
    return refuse("power.driver = \"wake-on-lan\"", "use a flock of processes: \"process\"");
  if (flock.power.kind == PowerKind::Exec) return refuse("power.driver = \"exec\"", "use a flock of processes: \"process\"");
  if (flock.netboot.enabled) return refuse("netboot", "set netboot.enabled = false");
  if (flock.engine.transport == TransportKind::Dpdk) return refuse("engine.transport = \"dpdk\"", "set it to \"udp\"");
  if (flock.engine.attention == AttentionKind::Cuda)
    return refuse("engine.attention = \"cuda\"", "set it to \"auto\" or \"cpu\"");
  if (flock.engine.reply == ReplyType::Compact) return refuse("engine.reply = \"compact\"", "set it to \"exact\"");
  for (const Duck& duck : flock.ducks) {
    // The names of log and run files that are not a duck's.
    if (duck.name == "duck-engine" || duck.name == "ductl") {
      return fail(ErrorCode::kUsage, fmt::format("a duck can't be called {}", duck.name), flock.file.string(),
                  "give it another name");
    }
  }
  return {};
}

} // namespace ductl::reconcile
