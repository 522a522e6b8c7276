// The JSON bodies of the control plane, both ends of each (docs/control.md). Pure: text in, values out, and back.
// Whatever is missing, of another type, out of range or nested too deep is refused by name.
#pragma once

#include "agent/client/control_client.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ductl::agent {

inline constexpr std::size_t kJsonBodyBytesMax = 16u << 20;

// PUT /v1/model
[[nodiscard]] std::string model_text(const StoreModel& model);
[[nodiscard]] Expected<StoreModel> parse_model(std::string_view text);

// POST /v1/slices/drop; an epoch's body holds the same list
[[nodiscard]] std::string ids_text(std::span<const weights::SliceId> ids);
[[nodiscard]] Expected<std::vector<weights::SliceId>> parse_ids(std::string_view text);

// POST /v1/epoch
struct EpochMessage {
  std::uint32_t epoch = 0; // never 0
  std::vector<weights::SliceId> ids;
};
[[nodiscard]] std::string epoch_text(std::uint32_t epoch, std::span<const weights::SliceId> ids);
[[nodiscard]] Expected<EpochMessage> parse_epoch(std::string_view text);

// POST /v1/session
[[nodiscard]] std::string session_text(const SessionMessage& session);
[[nodiscard]] Expected<SessionMessage> parse_session(std::string_view text);

// Answers
[[nodiscard]] std::string hello_text(const Hello& hello);
[[nodiscard]] Expected<Hello> parse_hello(std::string_view text); // kAgentVersion before anything else of it is believed
[[nodiscard]] std::string stats_text(const AgentStats& stats);
[[nodiscard]] Expected<AgentStats> parse_stats(std::string_view text);
[[nodiscard]] std::string digests_text(std::span<const weights::SliceDigest> digests);
[[nodiscard]] Expected<std::vector<weights::SliceDigest>> parse_digests(std::string_view text);
[[nodiscard]] std::string held_text(std::span<const weights::HeldSlice> slices); // of one layer
[[nodiscard]] Expected<std::vector<weights::HeldSlice>> parse_held(std::string_view text, int layer);
[[nodiscard]] std::string error_text(const Error& error);
[[nodiscard]] Expected<Error> parse_error(std::string_view text); // an error: the text is none of an agent's
[[nodiscard]] std::string ready_text(std::uint16_t control_port, std::uint16_t data_port, int pid); // the line on --ready-fd
[[nodiscard]] std::string not_ready_text(const Error& error);

} // namespace ductl::agent
