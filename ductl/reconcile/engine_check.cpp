#include "ductl/reconcile/engine_check.hpp"

#include "ductl/power/launch.hpp"
#include "ductl/reconcile/local_flock.hpp"
#include "inventory/version.hpp"

namespace ductl::reconcile {
namespace {

constexpr std::chrono::milliseconds kCheckLimit{600'000}; // it reads the host's weights, from a slow disk perhaps
constexpr std::chrono::milliseconds kEndGrace{2000};

} // namespace

Expected<void> check_engine(const FlockModel& model, const inventory::Flock& flock, const agent::StateFolder& state,
                            const ObservedEngine& engine, const std::function<bool()>& interrupted) {
  const auto program = power::sibling_program(kEngineProcess);
  if (!program) return tl::unexpected(program.error());
  const bool port_is_ours = engine.running && engine.api_port == flock.engine.api_port;
  const std::filesystem::path output = std::filesystem::path(state.log(kEngineProcess)).replace_extension(".check.out");
  const auto launched =
      power::launch({.program = *program,
                     .arguments = {"check", "--model", model.source, "--state", state.root.string(), "--chat-format",
                                   flock.model.chat_format, "--context", std::to_string(flock.engine.context_length),
                                   "--api-address", inventory::to_string(flock.engine.api_address), "--api-port",
                                   std::to_string(port_is_ours ? 0 : flock.engine.api_port), "--build", kBuild, "--ready-fd",
                                   std::to_string(power::kReadyDescriptor)},
                     .output = output});
  if (!launched) return tl::unexpected(launched.error());
  const auto ready = power::await_ready(launched->ready, kCheckLimit, ErrorCode::kEngineStart, "the engine's check", output,
                                        output, interrupted);
  (void)power::stop_process(launched->record, kEndGrace); // it ends by itself; only one that hangs is stopped
  std::error_code ignored;
  if (!ready) return tl::unexpected(ready.error());
  std::filesystem::remove(output, ignored); // empty
  return {};
}

} // namespace ductl::reconcile
