// Joining a flock that `ductl up` has raised: are the ducks those that serving.json names, do they hold what the manifest
// says; then a data-plane session on each, and FFNs in rounds.
#pragma once

#include "agent/client/control_client.hpp"
#include "agent/client/serving.hpp"
#include "agent/client/state_folder.hpp"
#include "engine/moe/flock_ffn.hpp"

#include <functional>
#include <span>

namespace ductl::engine {

// Pure: protocol and flock of every hello, model and epoch, and that the active slices of all add up to the whole model.
// `hellos` in the order of serving.ducks.
[[nodiscard]] Expected<void> check_hellos(const agent::Serving& serving, const std::string& model_id,
                                          std::span<const agent::Hello> hellos);

// What of a flock's settings this build of the engine can do; the rest is refused by name.
[[nodiscard]] Expected<void> check_engine_settings(const inventory::Engine& engine);

[[nodiscard]] std::uint64_t new_session_tag(); // 64 random bits, never 0

struct FlockLinkOptions {
  std::string key;               // of the flock
  agent::StateFolder state = {}; // of the flock, for the names of its logs in errors; may be empty
  std::uint64_t session_tag = 0;
  bool bf16_hidden = false, compact_reply = false;
  std::function<void(const std::string&)> on_stage; // may be empty
};
[[nodiscard]] Expected<std::unique_ptr<FlockFfn>> join_flock(const agent::Serving& serving, const weights::Manifest& manifest,
                                                             const weights::ModelConfig& config, const FlockLinkOptions& options);

} // namespace ductl::engine
