#include "ductl/reconcile/machines.hpp"

#include "ductl/boot/boot_desk.hpp"
#include "ductl/power/wake_on_lan.hpp"
#include "ductl/power/wake_schedule.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mutex>
#include <spdlog/spdlog.h>
#include <thread>

namespace ductl::reconcile {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookAgain{250}; // for an interruption, and what is due
constexpr milliseconds kAskAgain{2000}; // a duck that nothing was heard of: it may have booted unseen
constexpr milliseconds kAskLimit{700};  // a dark one answers no ARP, which takes seconds to be told
constexpr std::chrono::seconds kPowerOffLimit{30};

std::int64_t unix_ms_now() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// What a duck can't be without while it holds weights. Other checks (its heat, its clock, whether it would wake again) are told
// by `ductl status`, and the duck serves.
bool keeps_weights_off(const std::string& check) {
  return check == agent::check::kMemory || check == agent::check::kMemoryTest || check == agent::check::kCpu ||
         check == agent::check::kLink;
}

} // namespace

struct Machines::Impl {
  const inventory::Flock flock;
  const agent::StateFolder state;
  const std::string key;
  const std::unique_ptr<power::PowerDriver> power;
  std::mutex desk_mutex, wake_mutex;           // desk_mutex: also boots.json, where nobody serves
  std::unique_ptr<boot::BootDesk> opened_desk; // below desk_mutex until it is there; then it only goes with this
  power::WakeSchedule schedule;                // below wake_mutex

  Impl(const inventory::Flock& f, const agent::StateFolder& s, std::string k)
      : flock(f), state(s), key(std::move(k)), power(power::make_wake_on_lan_driver(f.ports)) {}

  [[nodiscard]] agent::ControlClient client(std::size_t duck, milliseconds limit) const {
    return {flock.ducks[duck].name, agent::Endpoint{flock.ducks[duck].address, flock.agent_ports.control}, key, limit,
            "on its own screen, or by GET /v1/log"};
  }
  [[nodiscard]] agent::ControlClient client(std::size_t duck) const {
    return client(duck, milliseconds(flock.limits.control_timeout_ms));
  }
  [[nodiscard]] std::string place(std::size_t duck) const {
    const inventory::Duck& d = flock.ducks[duck];
    return fmt::format("duck {}, {}, MAC {}, {}", d.name, inventory::to_string(d.address),
                       d.mac ? inventory::to_string(*d.mac) : "none", flock.ports[static_cast<std::size_t>(d.port_index)].name);
  }

  Expected<boot::BootDesk*> serving_desk() {
    const std::lock_guard lock(desk_mutex);
    if (opened_desk) return opened_desk.get();
    std::optional<boot::DuckImage> image;
    Expected<void> sought;
    if (flock.netboot.enabled) {
      auto found = boot::find_duck_image(flock);
      if (found)
        image = std::move(*found);
      else
        sought = tl::unexpected(found.error());
    }
    auto followed = boot::BootDesk::follow(flock, state, image ? image->manifest.image : "");
    if (!followed) return tl::unexpected(followed.error());
    if ((opened_desk = std::move(*followed))) return opened_desk.get();
    if (!sought) return tl::unexpected(sought.error());
    const auto log = [](const boot::BootNews& news) { spdlog::info("boot: {} {}", news.kind, news.text); };
    auto opened = boot::BootDesk::serve(flock, state, image ? &*image : nullptr, log);
    if (!opened) return tl::unexpected(opened.error());
    opened_desk = std::move(*opened);
    return opened_desk.get();
  }

  // Sends what is due to any duck, whoever's thread this is. The error of this one's own packets.
  Expected<void> send_due(boot::BootDesk& desk, std::size_t own, const boot::BootPatience& patience) {
    Expected<void> result;
    const std::lock_guard lock(wake_mutex);
    for (const std::size_t duck : schedule.due(Clock::now())) {
      auto sent = power->on(flock.ducks[duck]);
      if (sent) desk.wake_sent(duck);
      if (boot::is_sought_everywhere(desk.stories().ducks[duck], patience, std::chrono::system_clock::now())) seek(duck);
      if (!sent && duck == own) result = std::move(sent);
    }
    return result;
  }

  // A port without a link is no fault here: the duck's own was looked at.
  void seek(std::size_t duck) {
    inventory::Duck elsewhere = flock.ducks[duck];
    for (std::size_t port = 0; port < flock.ports.size(); ++port) {
      if (static_cast<int>(port) == flock.ducks[duck].port_index) continue;
      elsewhere.port_index = static_cast<int>(port);
      (void)power->on(elsewhere);
    }
  }

  void want(std::size_t duck) {
    const std::lock_guard lock(wake_mutex);
    schedule.want(duck, flock.ducks[duck].port_index, Clock::now());
  }
  void done(std::size_t duck) {
    const std::lock_guard lock(wake_mutex);
    schedule.done(duck);
  }

  // Until the duck's agent answers, with another boot than `boot_before`.
  Expected<agent::Hello> await(boot::BootDesk& desk, std::size_t duck, const std::string& boot_before, const Machines& owner) {
    const boot::BootPatience patience = boot::patience_of(flock.limits);
    Instant ask_next = Clock::now();
    for (;;) {
      if (owner.interrupted()) return fail(ErrorCode::kCancelled, "interrupted");
      if (auto fault = desk.fault()) return tl::unexpected(*fault);
      if (auto sent = send_due(desk, duck, patience); !sent) return tl::unexpected(sent.error());
      const boot::BootStories stories = desk.stories();
      const boot::BootStory& story = stories.ducks[duck];
      owner.on_boot(flock.ducks[duck].name, std::string(boot::to_string(story.step)));
      if (story.step >= boot::BootStep::Asked) done(duck); // it is awake
      const bool up = story.step == boot::BootStep::Agent;
      if (up || Clock::now() >= ask_next) {
        if (auto hello = client(duck, kAskLimit).hello_of_any(); hello && hello->boot_id != boot_before) return hello;
        ask_next = Clock::now() + kAskAgain;
      }
      boot::BootVerdict verdict = boot::diagnose_boot(stories, duck, flock, patience, std::chrono::system_clock::now());
      if (verdict.given_up) {
        if (verdict.reason.empty()) verdict.reason = "it has not come back after its restart";
        return fail(ErrorCode::kPower, fmt::format("duck {} did not come up: {}", flock.ducks[duck].name, verdict.reason),
                    place(duck), verdict.next);
      }
      desk.wait(kLookAgain);
    }
  }

  Expected<void> wake(std::size_t duck, const Machines& owner) {
    const auto desk = serving_desk();
    if (!desk) return tl::unexpected(desk.error());
    (*desk)->wanted(duck);
    want(duck);
    const auto hello = await(**desk, duck, "", owner);
    done(duck);
    if (!hello) return tl::unexpected(hello.error());
    (*desk)->agent_seen(duck);
    return {};
  }

  Expected<void> reboot(std::size_t duck, const std::string& wanted_image, const Machines& owner) {
    const auto desk = serving_desk();
    if (!desk) return tl::unexpected(desk.error());
    const auto before = client(duck).hello_of_any(); // it may have been renamed since its adoption
    if (!before) return tl::unexpected(before.error());
    (*desk)->wanted(duck);
    if (auto told = client(duck).reboot(); !told) return told;
    const auto hello = await(**desk, duck, before->boot_id, owner);
    if (!hello) return tl::unexpected(hello.error());
    (*desk)->agent_seen(duck);
    if (!wanted_image.empty() && hello->image != wanted_image)
      return fail(ErrorCode::kPower, fmt::format("duck {} runs the old image again after its restart", flock.ducks[duck].name),
                  place(duck),
                  "it boots from a disk of its own, or another boot server answers it: write the image to that disk anew "
                  "(`ductl image esp`), or set network boot first in its BIOS");
    return {};
  }

  Expected<void> adopt(std::size_t duck, const std::string& wanted_image) {
    const inventory::Duck& d = flock.ducks[duck];
    return client(duck).adopt(
        {.flock = flock.name,
         .name = d.name,
         .key = key,
         .expected = {.memory_bytes = d.memory_bytes, .cores = d.cores, .link_mbps = d.link_mbps, .image = wanted_image},
         .time_ms = unix_ms_now()});
  }

  Expected<void> check_health(std::size_t duck) {
    const auto health = client(duck).health(unix_ms_now());
    if (!health) return tl::unexpected(health.error());
    auto fault = health_fault(flock.ducks[duck].name, *health);
    if (!fault) return {};
    fault->place = place(duck);
    return tl::unexpected(std::move(*fault));
  }

  // Gone is who answers no more.
  Expected<void> power_off(std::size_t duck, const Machines& owner) {
    const auto hello = client(duck).hello_of_any();
    if (!hello) return tl::unexpected(hello.error());
    if (!hello->adopted)
      if (auto adopted = adopt(duck, ""); !adopted) return adopted;
    if (auto told = client(duck).power_off(); !told) return told;
    const Instant until = Clock::now() + kPowerOffLimit;
    while (client(duck, kAskLimit).hello_of_any()) {
      if (owner.interrupted()) return fail(ErrorCode::kCancelled, "interrupted");
      if (Clock::now() >= until)
        return fail(ErrorCode::kPower, fmt::format("duck {} was told to switch off and still answers", flock.ducks[duck].name),
                    place(duck), "switch it off by its button");
      std::this_thread::sleep_for(kLookAgain);
    }
    const std::lock_guard lock(desk_mutex);
    boot::keep_off(state, flock, duck);
    return {};
  }
};

Machines::Machines(const inventory::Flock& flock, const agent::StateFolder& state, std::string flock_key)
    : impl_(std::make_unique<Impl>(flock, state, std::move(flock_key))) {}
Machines::~Machines() = default;

Expected<void> Machines::check(const Plan& plan) {
  bool boots = false;
  for (const Action& action : plan.actions) {
    if (action.kind != ActionKind::Wake && action.kind != ActionKind::Reboot) continue;
    boots = true;
    const auto duck = std::find_if(impl_->flock.ducks.begin(), impl_->flock.ducks.end(),
                                   [&](const inventory::Duck& d) { return d.name == action.duck; });
    if (duck == impl_->flock.ducks.end() || action.kind != ActionKind::Wake) continue;
    if (auto ok = impl_->power->check(*duck); !ok) return ok;
  }
  if (!boots) return {};
  if (auto desk = impl_->serving_desk(); !desk) return tl::unexpected(desk.error());
  return {};
}

Expected<void> Machines::act(const Action& action, std::size_t duck, const std::string& wanted_image) {
  switch (action.kind) {
  case ActionKind::Wake: return impl_->wake(duck, *this);
  case ActionKind::Reboot: return impl_->reboot(duck, wanted_image, *this);
  case ActionKind::Adopt: return impl_->adopt(duck, wanted_image);
  case ActionKind::CheckHealth: return impl_->check_health(duck);
  case ActionKind::PowerOff: return impl_->power_off(duck, *this);
  default: return fail(ErrorCode::kInternal, "not an action on a machine");
  }
}

std::optional<Error> health_fault(const std::string& duck, const agent::Health& health) {
  std::vector<std::string> faults, advice;
  for (const agent::HealthCheck& check : health.checks) {
    if (check.state != agent::HealthState::Fail || !keeps_weights_off(check.name)) continue;
    faults.push_back(check.expected.empty() ? fmt::format("{} {}", check.name, check.value)
                                            : fmt::format("{} {}, expected {}", check.name, check.value, check.expected));
    if (!check.advice.empty()) advice.push_back(check.advice);
  }
  if (faults.empty()) return std::nullopt;
  return Error{
      ErrorCode::kPower,
      fmt::format("duck {} is not fit to hold weights: {}", duck, fmt::join(faults, "; ")),
      duck,
      fmt::format("{}{}or say in the inventory what it has", fmt::join(advice, "; "), advice.empty() ? "repair it, " : "; "),
      {}};
}

} // namespace ductl::reconcile
