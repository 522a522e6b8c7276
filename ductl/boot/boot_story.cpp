#include "ductl/boot/boot_story.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace ductl::boot {
namespace {

using netboot::BootEventKind;
using nlohmann::json;

constexpr std::array<std::string_view, 7> kSteps{"none", "woken", "asked", "leased", "loader", "image", "agent"};
constexpr std::array<std::pair<BootEventKind, std::string_view>, 16> kNames{{
    {BootEventKind::Asked, "asked"},
    {BootEventKind::Leased, "leased"},
    {BootEventKind::FileBegun, "file-begun"},
    {BootEventKind::FileSent, "file-sent"},
    {BootEventKind::AgentAsked, "agent-asked"},
    {BootEventKind::FileFailed, "file-failed"},
    {BootEventKind::Refused, "refused"},
    {BootEventKind::Ignored, "ignored"},
    {BootEventKind::OtherSystem, "other-system"},
    {BootEventKind::WrongPort, "wrong-port"},
    {BootEventKind::UnknownMac, "unknown-mac"},
    {BootEventKind::ForeignServer, "foreign-server"},
    {BootEventKind::NoRequest, "no-request"},
    {BootEventKind::BootLoop, "boot-loop"},
    {BootEventKind::Conflict, "conflict"},
    {BootEventKind::Trouble, "trouble"},
}};
constexpr std::size_t kStrangersMax = 8; // of a port; more say nothing new
constexpr std::string_view kLoop = "boot-loop";

void advance(BootStory& story, BootStep step, WallTime now) {
  if (step <= story.step) return;
  story.step = step;
  story.since = now;
}

BootStep step_of_file(std::string_view file, const netboot::BootNames& names) {
  const std::string_view name = file.substr(file.rfind('/') + 1); // npos + 1 = 0
  return name == names.kernel || name == names.initrd || name == names.uki ? BootStep::Image : BootStep::Loader;
}

// A duck that starts anew goes through its steps again. A loop is one for as long as no agent came.
void note_start(BootStory& story, WallTime now) {
  story.step = BootStep::Asked;
  story.since = now;
  ++story.starts;
  if (story.trouble && story.trouble->kind != kLoop) story.trouble.reset();
}

void note_trouble(BootStory& story, std::string_view kind, const std::string& text, WallTime now) {
  if (story.trouble && story.trouble->kind == kLoop && kind != kLoop) return;
  story.trouble = BootTrouble{std::string(kind), text, now};
}

void note_of_port(PortStory& port, const netboot::BootEvent& event) {
  if (event.kind == BootEventKind::ForeignServer) port.foreign_server = event.text;
  if (event.kind != BootEventKind::UnknownMac || port.strangers.size() >= kStrangersMax) return;
  const std::string mac = inventory::to_string(event.mac);
  if (std::find(port.strangers.begin(), port.strangers.end(), mac) == port.strangers.end()) port.strangers.push_back(mac);
}

std::int64_t unix_ms(WallTime when) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(when.time_since_epoch()).count();
}

WallTime time_of(const json& object, const char* key) {
  return WallTime(std::chrono::milliseconds(object.value(key, std::int64_t{0})));
}

void read_duck(const json& from, BootStory& story) {
  const auto step = std::find(kSteps.begin(), kSteps.end(), from.value("step", ""));
  if (step == kSteps.end()) return;
  story.step = static_cast<BootStep>(step - kSteps.begin());
  story.since = time_of(from, "since_unix_ms");
  story.wakes = from.value("wakes", 0);
  story.first_wake = time_of(from, "first_wake_unix_ms");
  story.starts = from.value("starts", 0);
  story.came_before = from.value("came_before", false);
  if (const auto trouble = from.find("trouble"); trouble != from.end() && trouble->is_object())
    story.trouble = BootTrouble{trouble->value("kind", ""), trouble->value("text", ""), time_of(*trouble, "when_unix_ms")};
}

// The entries of one list of boots.json, by name.
template <class Story, class Read>
void read_list(const json& document, const char* list, std::vector<Story>& stories, std::string Story::*name, const Read& read) {
  if (!document.contains(list) || !document[list].is_array()) return;
  for (const json& entry : document[list]) {
    if (!entry.is_object()) continue;
    for (Story& story : stories)
      if (story.*name == entry.value("name", "")) read(entry, story);
  }
}

} // namespace

std::string_view to_string(BootStep step) { return kSteps[static_cast<std::size_t>(step)]; }

std::string_view name_of(BootEventKind kind) {
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& entry) { return entry.first == kind; });
  return found == kNames.end() ? "trouble" : found->second;
}

BootStories untold(const inventory::Flock& flock) {
  BootStories stories;
  for (const inventory::Duck& duck : flock.ducks) stories.ducks.push_back({.duck = duck.name});
  for (const inventory::Port& port : flock.ports) stories.ports.push_back({.port = port.name});
  return stories;
}

void note_event(BootStories& stories, const netboot::BootEvent& event, const netboot::BootNames& names, WallTime now) {
  if (event.port_index >= 0 && static_cast<std::size_t>(event.port_index) < stories.ports.size())
    note_of_port(stories.ports[static_cast<std::size_t>(event.port_index)], event);
  if (event.duck_index < 0 || static_cast<std::size_t>(event.duck_index) >= stories.ducks.size()) return;
  BootStory& story = stories.ducks[static_cast<std::size_t>(event.duck_index)];
  switch (event.kind) {
  case BootEventKind::Asked: note_start(story, now); break;
  case BootEventKind::Leased: advance(story, BootStep::Leased, now); break;
  case BootEventKind::FileBegun:
  case BootEventKind::FileSent: advance(story, step_of_file(event.file, names), now); break;
  case BootEventKind::AgentAsked: note_agent(stories, static_cast<std::size_t>(event.duck_index), now); break;
  default: note_trouble(story, name_of(event.kind), event.text, now);
  }
}

void note_wanted(BootStories& stories, std::size_t duck, WallTime now) {
  BootStory& story = stories.ducks[duck];
  story = BootStory{.duck = story.duck, .since = now, .first_wake = now, .came_before = story.came_before};
}

void note_wake(BootStories& stories, std::size_t duck, WallTime now) {
  BootStory& story = stories.ducks[duck];
  if (story.wakes++ == 0) story.first_wake = now;
  advance(story, BootStep::Woken, now);
}

void note_agent(BootStories& stories, std::size_t duck, WallTime now) {
  BootStory& story = stories.ducks[duck];
  advance(story, BootStep::Agent, now);
  story.came_before = true;
  story.starts = story.wakes = 0;
  story.trouble.reset();
}

void note_off(BootStories& stories, std::size_t duck, WallTime now) {
  BootStory& story = stories.ducks[duck];
  story = BootStory{.duck = story.duck, .since = now, .first_wake = story.first_wake, .came_before = story.came_before};
}

void note_agent_failed(BootStories& stories, std::size_t duck, const std::string& reason, WallTime now) {
  note_agent(stories, duck, now);
  note_trouble(stories.ducks[duck], "agent-failed", reason, now);
}

std::string stories_text(const BootStories& stories) {
  nlohmann::ordered_json ducks = nlohmann::ordered_json::array(), ports = nlohmann::ordered_json::array();
  for (const BootStory& story : stories.ducks) {
    nlohmann::ordered_json json = {{"name", story.duck},
                                   {"step", to_string(story.step)},
                                   {"since_unix_ms", unix_ms(story.since)},
                                   {"wakes", story.wakes},
                                   {"first_wake_unix_ms", unix_ms(story.first_wake)},
                                   {"starts", story.starts},
                                   {"came_before", story.came_before}};
    if (story.trouble)
      json["trouble"] = {
          {"kind", story.trouble->kind}, {"text", story.trouble->text}, {"when_unix_ms", unix_ms(story.trouble->when)}};
    ducks.push_back(std::move(json));
  }
  for (const PortStory& port : stories.ports)
    ports.push_back({{"name", port.port}, {"foreign_server", port.foreign_server}, {"strangers", port.strangers}});
  return nlohmann::ordered_json{{"ducks", ducks}, {"ports", ports}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

BootStories parse_stories(const std::string& text, const inventory::Flock& flock) {
  const BootStories none = untold(flock);
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return none;
  BootStories stories = none;
  try {
    read_list(document, "ducks", stories.ducks, &BootStory::duck, read_duck);
    read_list(document, "ports", stories.ports, &PortStory::port, [](const json& from, PortStory& port) {
      port.foreign_server = from.value("foreign_server", "");
      port.strangers = from.value("strangers", std::vector<std::string>{});
    });
  } catch (const json::exception&) { // a value of another type
    return none;
  }
  return stories;
}

} // namespace ductl::boot
