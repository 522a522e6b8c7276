// Where boots are served and watched: the boot server on a thread of its own, the agents' announcements, and what both tell, as
// stories that are kept in the state folder for other commands. I/O.
//
// One process of a flock serves. Where `ductl netboot` does already, another desk follows: it reads the stories of that one and
// serves nothing. Any thread, but for the constructor functions and the destructor.
#pragma once

#include "agent/client/state_folder.hpp"
#include "ductl/boot/boot_story.hpp"
#include "ductl/boot/duck_image.hpp"
#include "netboot/server/boot_server.hpp"

#include <functional>
#include <memory>

namespace ductl::boot {

// One thing that was seen, for a log or a table.
struct BootNews {
  WallTime when{};
  std::string kind = {};            // name_of() of the event; "hello", "failure", "notice" or "leaving" of an announcement
  std::string duck = {}, port = {}; // "" = none
  std::string mac = {};             // "" = not known
  std::string file = {};
  std::string text = {};
};

[[nodiscard]] std::filesystem::path stories_file(const agent::StateFolder& state);
[[nodiscard]] std::filesystem::path server_record(const agent::StateFolder& state);
// What the state folder tells of boots; untold where it tells nothing.
[[nodiscard]] BootStories load_stories(const agent::StateFolder& state, const inventory::Flock& flock);
// The duck was switched off. Where a process serves boots the file is that one's, and the duck's agent has told it.
void keep_off(const agent::StateFolder& state, const inventory::Flock& flock, std::size_t duck);

class BootDesk {
public:
  using OnNews = std::function<void(const BootNews&)>; // from the desk's own threads, one at a time; must not block

  // Serves: kAddressInUse or kBootServer when a port or a right cannot be had. The state folder is made already. With
  // netboot.enabled = false only announcements are taken in.
  [[nodiscard]] static Expected<std::unique_ptr<BootDesk>> serve(const inventory::Flock& flock, const agent::StateFolder& state,
                                                                 const DuckImage* image, OnNews on_news);
  // Follows the process that serves this flock; null when there is none. kBootServer when it serves another image than
  // `wanted_image`, into which no duck would ever come; "" = any will do.
  [[nodiscard]] static Expected<std::unique_ptr<BootDesk>> follow(const inventory::Flock& flock, const agent::StateFolder& state,
                                                                  const std::string& wanted_image);
  virtual ~BootDesk() = default; // ends what it began; the stories stay in their file

  [[nodiscard]] virtual BootStories stories() = 0;
  virtual void wanted(std::size_t duck) = 0;
  virtual void wake_sent(std::size_t duck) = 0;
  virtual void agent_seen(std::size_t duck) = 0;
  // Returns early when something was seen.
  virtual void wait(std::chrono::milliseconds limit) = 0;
  // Why serving has ended by itself; empty while it goes on.
  [[nodiscard]] virtual std::optional<Error> fault() = 0;
};

} // namespace ductl::boot
