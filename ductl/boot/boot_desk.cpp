#include "ductl/boot/boot_desk.hpp"

#include "agent/client/announcement.hpp"
#include "ductl/boot/flock_boot_plan.hpp"
#include "ductl/power/process_record.hpp"
#include "netboot/boot_script.hpp"
#include "netboot/descriptor.hpp"
#include "netboot/http/port_holder.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <mutex>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <set>
#include <span>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace ductl::boot {
namespace {

constexpr std::string_view kSwitchesOff = "switches off"; // the text of a leaving (docs/boot.md); a restart's is another
constexpr std::size_t kImageIdShown = 12;

WallTime wall_now() { return std::chrono::system_clock::now(); }

std::string file_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Written whole and renamed. Not being able to costs `ductl status` its view of boots, and nobody else anything.
void keep(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path part = fmt::format("{}.{}.part", file.string(), ::getpid());
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code ignored;
  if (out) std::filesystem::rename(part, file, ignored);
  std::filesystem::remove(part, ignored);
}

// The socket that agents announce themselves to: on all addresses, and told of each datagram by which interface it came.
Expected<netboot::Descriptor> announcement_socket() {
  netboot::Descriptor fd(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(agent::kAnnouncementPort);
  const int on = 1;
  if (fd.open() && ::setsockopt(fd.get(), IPPROTO_IP, IP_PKTINFO, &on, sizeof on) == 0 &&
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0)
    return fd;
  const int reason = errno;
  const std::string holder = http::udp_port_holder(INADDR_ANY, agent::kAnnouncementPort);
  return fail(reason == EADDRINUSE ? ErrorCode::kAddressInUse : ErrorCode::kBootServer,
              fmt::format("UDP port {}, where ducks announce themselves, cannot be had: {}{}", agent::kAnnouncementPort,
                          std::strerror(reason), holder.empty() ? "" : ", " + holder + " has it"),
              "this machine", "stop that program; one machine hosts one netbooted flock at a time");
}

struct Datagram {
  std::string_view bytes; // of the buffer
  unsigned interface = 0; // the kernel's number of it; 0 = not told
};

std::optional<Datagram> receive(int socket, std::span<char> buffer) {
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(in_pktinfo))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, 0);
  if (got < 0) return std::nullopt;
  Datagram datagram{.bytes = {buffer.data(), static_cast<std::size_t>(got)}};
  const cmsghdr* about = CMSG_FIRSTHDR(&message);
  if (about == nullptr || about->cmsg_level != IPPROTO_IP || about->cmsg_type != IP_PKTINFO) return datagram;
  in_pktinfo info{};
  std::memcpy(&info, CMSG_DATA(about), sizeof info);
  datagram.interface = static_cast<unsigned>(info.ipi_ifindex);
  return datagram;
}

class Server final : public BootDesk, private netboot::BootEvents {
public:
  Server(const inventory::Flock& flock, const agent::StateFolder& state, OnNews on_news)
      : flock_(flock),
        state_(state),
        on_news_(std::move(on_news)),
        stories_(load_stories(state, flock)),
        wake_(::eventfd(0, EFD_CLOEXEC)) {}

  ~Server() override {
    if (boot_server_) boot_server_->stop();
    ended_ = true;
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
    const bool served = !threads_.empty();
    threads_.clear(); // joins
    std::error_code ignored;
    if (!record_.empty()) std::filesystem::remove(record_, ignored);
    if (served) keep(stories_file(state_), stories_text(stories_));
  }

  Expected<void> open(const DuckImage* image) {
    auto socket = announcement_socket();
    if (!socket) return tl::unexpected(socket.error());
    announcements_ = std::move(*socket);
    if (image != nullptr) {
      auto files = load_boot_files(*image);
      if (!files) return tl::unexpected(files.error());
      netboot::BootPlan plan = flock_boot_plan(flock_, image->manifest.command_line);
      if (auto added = netboot::add_scripts(plan, *files); !added) return added;
      names_ = plan.names;
      auto opened = netboot::BootServer::open(std::move(plan), std::move(*files), *this);
      if (!opened) return tl::unexpected(opened.error());
      boot_server_ = std::move(*opened);
    }
    if (auto self = power::record_of(::getpid())) {
      if (image != nullptr) self->image = image->manifest.image;
      if (power::save_record(*self, server_record(state_))) record_ = server_record(state_);
    }
    start();
    return {};
  }

  BootStories stories() override {
    const std::lock_guard lock(mutex_);
    return stories_;
  }

  void wanted(std::size_t duck) override {
    note([&] { note_wanted(stories_, duck, wall_now()); });
  }
  void wake_sent(std::size_t duck) override {
    note([&] { note_wake(stories_, duck, wall_now()); });
  }
  void agent_seen(std::size_t duck) override {
    if (boot_server_) boot_server_->agent_seen(static_cast<int>(duck));
    note([&] { note_agent(stories_, duck, wall_now()); });
  }

  void wait(std::chrono::milliseconds limit) override {
    std::unique_lock lock(mutex_);
    const std::uint64_t seen = news_;
    changed_.wait_for(lock, limit, [&] { return news_ != seen; });
  }

  std::optional<Error> fault() override {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

private:
  void start() {
    if (boot_server_)
      threads_.emplace_back([this] {
        const auto served = boot_server_->run();
        const std::lock_guard lock(mutex_);
        if (!served) fault_ = served.error();
      });
    threads_.emplace_back([this] { hear_announcements(); });
  }

  // Everything that changes a story comes through here.
  template <class Change> void note(const Change& change) {
    {
      const std::lock_guard lock(mutex_);
      const BootStories before = stories_;
      change();
      ++news_;
      if (stories_ != before) keep(stories_file(state_), stories_text(stories_)); // a hello that is repeated changes nothing
    }
    changed_.notify_all();
  }

  void tell(const BootNews& news) {
    const std::lock_guard lock(telling_);
    on_news_(news);
  }

  void on_event(const netboot::BootEvent& event) override {
    note([&] { note_event(stories_, event, names_, wall_now()); });
    BootNews news{.when = wall_now(), .kind = std::string(name_of(event.kind)), .file = event.file, .text = event.text};
    if (event.duck_index >= 0) news.duck = flock_.ducks[static_cast<std::size_t>(event.duck_index)].name;
    if (event.port_index >= 0) news.port = flock_.ports[static_cast<std::size_t>(event.port_index)].name;
    if (event.mac != inventory::Mac{}) news.mac = inventory::to_string(event.mac);
    tell(news);
  }

  void hear_announcements() {
    std::array<char, agent::kAnnouncementBytesMax + 1> buffer{};
    while (!ended_) {
      std::array<pollfd, 2> waiting{pollfd{announcements_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
      if (::poll(waiting.data(), waiting.size(), -1) <= 0 || waiting[1].revents != 0) continue;
      const auto datagram = receive(announcements_.get(), buffer);
      if (!datagram || !is_of_a_port(datagram->interface)) continue;
      if (const auto announcement = agent::parse_announcement(datagram->bytes)) on_announcement(*announcement);
    }
  }

  // Ducks hang on the inventory's ports; whoever else this machine is joined to has nothing to announce. Looked up each time: an
  // interface that was made anew has another number.
  [[nodiscard]] bool is_of_a_port(unsigned interface) const {
    return interface != 0 && std::any_of(flock_.ports.begin(), flock_.ports.end(), [interface](const inventory::Port& port) {
             return ::if_nametoindex(port.interface.c_str()) == interface;
           });
  }

  // A hint, not proof: it ends a wait early, and its text is shown.
  void on_announcement(const agent::Announcement& announcement) {
    const auto at = std::find_if(flock_.ducks.begin(), flock_.ducks.end(),
                                 [&](const inventory::Duck& duck) { return duck.mac == announcement.mac; });
    BootNews news{.when = wall_now(),
                  .kind = agent::to_string(announcement.kind),
                  .mac = inventory::to_string(announcement.mac),
                  .text = announcement.text};
    if (at != flock_.ducks.end()) {
      const auto number = static_cast<std::size_t>(at - flock_.ducks.begin());
      news.duck = at->name;
      news.port = flock_.ports[static_cast<std::size_t>(at->port_index)].name;
      note([&] {
        if (announcement.kind == agent::AnnouncementKind::Failure)
          note_agent_failed(stories_, number, announcement.text, wall_now());
        else if (announcement.kind == agent::AnnouncementKind::Hello)
          note_agent(stories_, number, wall_now());
        else if (announcement.kind == agent::AnnouncementKind::Leaving && announcement.text == kSwitchesOff)
          note_off(stories_, number, wall_now());
      });
    }
    const std::string who = news.duck.empty() ? "an agent of MAC " + news.mac + ", which is not in the inventory" : news.duck;
    news.text = news.text.empty() ? fmt::format("{} is up, version {}", who, announcement.agent) : who + ": " + news.text;
    if (announcement.kind != agent::AnnouncementKind::Hello || greeted_.emplace(announcement.boot_id).second) tell(news);
    if (greeted_.size() > kGreetedMax) greeted_.clear();
  }

  static constexpr std::size_t kGreetedMax = 1024;
  const inventory::Flock flock_;
  const agent::StateFolder state_;
  const OnNews on_news_;
  netboot::BootNames names_;
  std::filesystem::path record_;
  std::unique_ptr<netboot::BootServer> boot_server_;
  netboot::Descriptor announcements_;
  std::set<std::string> greeted_; // boots whose hello was told; announcement thread only
  std::mutex telling_, mutex_;    // mutex_: below
  std::condition_variable changed_;
  BootStories stories_;
  std::uint64_t news_ = 0;
  std::optional<Error> fault_;
  netboot::Descriptor wake_;
  std::atomic<bool> ended_ = false;
  std::vector<std::jthread> threads_;
};

// Its own wakes are its own knowledge; the rest is the serving process's.
class Follower final : public BootDesk {
public:
  Follower(const inventory::Flock& flock, const agent::StateFolder& state) : flock_(flock), state_(state), own_(untold(flock)) {}

  BootStories stories() override {
    const std::lock_guard lock(mutex_);
    BootStories seen = load_stories(state_, flock_);
    for (std::size_t i = 0; i < own_.ducks.size(); ++i) {
      BootStory& story = seen.ducks[i];
      const BootStory& own = own_.ducks[i];
      if (own.first_wake == WallTime{}) continue;
      if (story.since >= own.first_wake && story.step > BootStep::Woken) { // seen since it was wanted
        story.first_wake = own.first_wake;
        story.wakes = own.wakes;
        continue;
      }
      const bool came_before = story.came_before;
      const bool fresh_trouble = story.trouble && story.trouble->when >= own.first_wake;
      const auto trouble = fresh_trouble ? story.trouble : std::nullopt;
      story = own;
      story.came_before = came_before || own.came_before;
      story.trouble = trouble;
    }
    return seen;
  }
  void wanted(std::size_t duck) override {
    const std::lock_guard lock(mutex_);
    note_wanted(own_, duck, wall_now());
  }
  void wake_sent(std::size_t duck) override {
    const std::lock_guard lock(mutex_);
    note_wake(own_, duck, wall_now());
  }
  void agent_seen(std::size_t duck) override {
    const std::lock_guard lock(mutex_);
    note_agent(own_, duck, wall_now());
  }
  void wait(std::chrono::milliseconds limit) override {
    std::this_thread::sleep_for(std::min(limit, std::chrono::milliseconds(500)));
  }
  std::optional<Error> fault() override {
    const auto record = power::load_record(server_record(state_));
    if (record && power::is_running(*record)) return std::nullopt;
    return Error{ErrorCode::kBootServer,
                 "the `ductl netboot` that served this flock's boots has ended",
                 {},
                 "run it again, or `ductl up` alone"};
  }

private:
  const inventory::Flock flock_;
  const agent::StateFolder state_;
  std::mutex mutex_;
  BootStories own_;
};

} // namespace

std::filesystem::path stories_file(const agent::StateFolder& state) { return state.root / "boots.json"; }
std::filesystem::path server_record(const agent::StateFolder& state) { return state.root / "netboot.json"; }

BootStories load_stories(const agent::StateFolder& state, const inventory::Flock& flock) {
  return parse_stories(file_text(stories_file(state)), flock);
}

void keep_off(const agent::StateFolder& state, const inventory::Flock& flock, std::size_t duck) {
  if (const auto server = power::load_record(server_record(state)); server && power::is_running(*server)) return;
  BootStories stories = load_stories(state, flock);
  note_off(stories, duck, wall_now());
  keep(stories_file(state), stories_text(stories));
}

Expected<std::unique_ptr<BootDesk>> BootDesk::serve(const inventory::Flock& flock, const agent::StateFolder& state,
                                                    const DuckImage* image, OnNews on_news) {
  auto server = std::make_unique<Server>(flock, state, std::move(on_news));
  if (auto opened = server->open(image); !opened) return tl::unexpected(opened.error());
  return server;
}

Expected<std::unique_ptr<BootDesk>> BootDesk::follow(const inventory::Flock& flock, const agent::StateFolder& state,
                                                     const std::string& wanted_image) {
  const auto record = power::load_record(server_record(state));
  if (!record || !power::is_running(*record) || record->pid == ::getpid()) return nullptr;
  if (!wanted_image.empty() && record->image != wanted_image)
    return fail(ErrorCode::kBootServer,
                fmt::format("the `ductl netboot` that serves this flock's boots serves image {}, wanted is {}",
                            record->image.empty() ? "none" : record->image.substr(0, kImageIdShown),
                            wanted_image.substr(0, kImageIdShown)),
                fmt::format("process {}", record->pid),
                "restart `ductl netboot`: it serves the image that was there when it began");
  return std::make_unique<Follower>(flock, state);
}

} // namespace ductl::boot
