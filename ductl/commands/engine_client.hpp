// A conversation with duck-engine over HTTP (libcurl). Blocks; one call at a time.
#pragma once

#include "ductl/commands/chat_api.hpp"
#include "inventory/clock.hpp"
#include "inventory/inventory.hpp"

#include <functional>

namespace ductl::commands {

struct EngineAddress {
  std::string url;      // "http://127.0.0.1:7411"
  std::string log_file; // named in errors
  std::string key;      // bearer token; empty = none
};
[[nodiscard]] EngineAddress engine_address(const inventory::Flock& flock);
// "http://127.0.0.1:7411", where this machine reaches an API bound to `address`.
[[nodiscard]] std::string api_url(inventory::Ipv4 address, std::uint16_t port);

// Sends `request` and gives out the text as it comes. `stop` is asked a few times a second and after each piece; when it
// says yes, the connection is closed (which ends the work in the engine) and the answer so far comes back, marked stopped.
// No engine, or one from which nothing has come for `silence_max`: kEngineUnreachable, which says `ductl up`. An engine that
// works is never silent for longer than 15 s, however long its prompt or its queue (docs/api.md).
[[nodiscard]] Expected<Answer> ask_engine(const EngineAddress& engine, const ChatRequest& request,
                                          const std::function<void(std::string_view)>& on_text, const std::function<bool()>& stop,
                                          Duration silence_max = std::chrono::seconds(60));

} // namespace ductl::commands
