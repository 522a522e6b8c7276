#include "agent/init/duck_init.hpp"

#include "agent/health/panic_record.hpp"
#include "agent/host_facts.hpp"
#include "agent/init/address_keeper.hpp"
#include "agent/init/hello_schedule.hpp"
#include "agent/init/kernel_arguments.hpp"
#include "agent/init/kernel_log.hpp"
#include "agent/init/machine.hpp"
#include "agent/init/machine_settings.hpp"
#include "agent/init/modules.hpp"
#include "agent/init/route_netlink.hpp"
#include "agent/init/watchdog.hpp"
#include "inventory/version.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

namespace ductl::agent::init {
namespace {

using namespace std::chrono_literals;

constexpr Duration kCardWait = 30s, kServerWait = 120s; // a switch port with spanning tree needs 50 s
constexpr Duration kStep = 200ms, kLookEvery = 2s, kFailureWait = 30s, kFailureRepeat = 5s, kLeaveWait = 200ms;
const std::vector<std::string> kSensors{"coretemp", "iTCO_wdt", "efi_pstore"}; // not found by PCI or virtio device
const std::vector<std::string> kSoftWatchdog{"softdog"};

std::string first_line(const MachineFiles& files, const std::string& path) { return files.line(path).value_or(""); }

class RealDuckInit final : public DuckInit {
public:
  explicit RealDuckInit(std::string boot_id) : boot_id_(std::move(boot_id)) {
    const auto mounted = mount_file_systems();
    take_over();
    log_to_kernel();
    spdlog::info("duck-agent {} ({}) is process 1", kVersion, kRevision);
    if (!mounted) give_up(mounted.error());
    arguments_ = parse_kernel_arguments(files_.text("proc/cmdline").value_or(""));
    image_ = first_line(files_, "image.id");
    const auto settings = machine_settings(files_, core_count());
    const int made = make_settings(files_, settings);
    spdlog::info("image {}, {} of {} kernel settings made", image_.empty() ? "without an id" : image_.substr(0, 12), made,
                 settings.size());
    guard();
    last_panic_ = health::take_panic_record(files_); // guard() has loaded what shows it
    if (last_panic_ && !last_panic_->empty()) spdlog::warn("the boot before this one ended with: {}", *last_panic_);
    self_test_ = std::async(std::launch::async, [this] { return health::run_self_test(files_, [this] { watchdog_.feed(); }); });
  }

  Expected<Booted> boot() override {
    const auto card = find_card();
    if (!card) return tl::unexpected(card.error());
    card_ = *card;
    if (auto raised = raise_link(card_.interface); !raised) return tl::unexpected(raised.error());
    arm_wake_on_lan(card_.interface);
    auto keeper = AddressKeeper::open(card_.interface, card_.mac, arguments_.address);
    if (!keeper) return tl::unexpected(keeper.error());
    keeper_ = std::move(*keeper);
    if (auto got = wait_for_address(); !got) return tl::unexpected(got.error());
    const Lease& lease = *keeper_->lease();
    host_ = arguments_.host != 0 ? arguments_.host : lease.server;
    spdlog::info("{} ({}) is {} for {} s, boot host {}", card_.interface, inventory::to_string(card_.mac),
                 inventory::to_string(lease.address), std::chrono::duration_cast<std::chrono::seconds>(lease.lifetime).count(),
                 inventory::to_string(host_));
    return Booted{card_.mac, card_.interface, {host_, lease.address, lease.netmask}};
  }

  health::Measured measured() override {
    health::Measured measured = self_test_.get();
    measured.last_panic = last_panic_;
    spdlog::info("memory test: {} MiB, {} bad words {}", measured.memory_tested_bytes.value_or(0) >> 20,
                 measured.memory_bad_words.value_or(0), measured.memory_bad_place);
    return measured;
  }

  [[nodiscard]] const std::string& image() const override { return image_; }
  void feed_watchdog() override { watchdog_.feed(); }

  void keep(health::HealthWatch& health, const Membership& membership, std::uint16_t control_port,
            std::function<void(const Error&)> on_trouble) override {
    control_port_ = control_port;
    thread_ = std::thread([this, &health, &membership, on_trouble = std::move(on_trouble)] {
      const auto kept = keep_until_stopped(health, membership);
      if (!kept) on_trouble(kept.error());
    });
  }

  void stop_keeping() override {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void give_up(const Error& error) override {
    spdlog::critical("{}", error.message);
    if (!error.next.empty()) spdlog::critical("{}", error.next);
    spdlog::critical("this duck starts anew in {} s", std::chrono::duration_cast<std::chrono::seconds>(kFailureWait).count());
    stop_keeping();
    for (Duration waited{}; waited < kFailureWait; waited += kFailureRepeat) {
      announce(AnnouncementKind::Failure, error.message);
      watchdog_.feed();
      std::this_thread::sleep_for(kFailureRepeat);
    }
    restart_machine();
  }

  void end(bool power_off) override {
    stop_keeping();
    announce(AnnouncementKind::Leaving, power_off ? "switches off" : "starts anew");
    const auto wake = arm_wake_on_lan(card_.interface); // some drivers forget it when the link changes
    spdlog::info("{}, wake-on-LAN {}", power_off ? "switches off" : "starts anew", wake && wake->armed ? "armed" : "not armed");
    std::this_thread::sleep_for(kLeaveWait); // what was answered is still on its way
    if (power_off) power_off_machine();
    restart_machine();
  }

private:
  // The hardware's watchdog where its driver finds one, else the kernel's.
  void guard() {
    auto loaded = modules_.load_for_devices();
    if (loaded) loaded = modules_.load_by_name(kSensors);
    if (loaded && !files_.exists("sys/class/watchdog/watchdog0")) loaded = modules_.load_by_name(kSoftWatchdog);
    if (!loaded) give_up(loaded.error());
    watchdog_ = Watchdog::open();
    spdlog::info("watchdog: {}", watchdog_.there() ? first_line(files_, "sys/class/watchdog/watchdog0/identity") : "none");
  }

  // Drivers are loaded until the card that it booted from is there.
  Expected<NetworkCard> find_card() {
    for (const Instant end = Clock::now() + kCardWait; Clock::now() < end; std::this_thread::sleep_for(kStep)) {
      watchdog_.feed();
      const auto fresh = modules_.load_for_devices();
      if (!fresh) return tl::unexpected(fresh.error());
      if (const auto card = choose_card(network_cards(files_), arguments_.boot_mac)) return *card;
    }
    const std::size_t count = network_cards(files_).size();
    const std::string wanted = arguments_.boot_mac ? " with MAC " + inventory::to_string(*arguments_.boot_mac) : "";
    return fail(ErrorCode::kBootServer,
                count == 0 ? "no network card: the image has no driver for it"
                           : fmt::format("{} network cards, and it is not clear which one{}", count, wanted),
                {}, "boot it through iPXE, which says BOOTIF=, or build the image with --module DRIVER");
  }

  Expected<void> wait_for_address() {
    const Instant began = Clock::now();
    for (bool told = false; !keeper_->lease(); told = true) {
      watchdog_.feed();
      const auto link = link_state(files_, card_.interface);
      if (!told) spdlog::info("{}: {}", card_.interface, link && link->carrier ? "link" : "no link yet");
      if (Clock::now() - began > kServerWait)
        return fail(ErrorCode::kBootServer,
                    link && link->carrier ? "no DHCP server answered for two minutes" : "no link for two minutes",
                    card_.interface,
                    link && link->carrier ? "does ductl netboot run, and is this MAC in the inventory?"
                                          : "look at the cable and the switch port");
      if (auto served = keeper_->serve(1s); !served) return served;
    }
    return {};
  }

  Expected<void> keep_until_stopped(health::HealthWatch& health, const Membership& membership) {
    HelloSchedule hello(Clock::now());
    for (Instant next_look = Clock::now(); !stopping_;) {
      const Instant now = Clock::now();
      if (hello.is_due(now, membership.adopted())) announce(AnnouncementKind::Hello, "");
      if (now >= next_look) {
        next_look = now + kLookEvery;
        for (const HealthCheck& worse : health.look(now)) {
          const std::string text = fmt::format("{}: {}, expected {}", worse.name, worse.value, worse.expected);
          spdlog::warn("{}; {}", text, worse.advice);
          announce(AnnouncementKind::Notice, text);
        }
      }
      if (auto served = keeper_->serve(kStep); !served) return served;
    }
    return {};
  }

  void announce(AnnouncementKind kind, std::string text) {
    if (!keeper_) return;
    Announcement out;
    out.kind = kind;
    out.mac = card_.mac;
    out.address = keeper_->lease() ? keeper_->lease()->address : 0;
    out.control_port = control_port_;
    out.boot_id = boot_id_;
    out.image = image_;
    out.agent = kVersion;
    out.uptime_ms =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
                                       .count()); // since the kernel's start
    out.text = std::move(text);
    keeper_->announce(out, host_);
  }

  const std::string boot_id_;
  const MachineFiles files_;
  KernelArguments arguments_;
  std::string image_;
  std::optional<std::string> last_panic_;
  Modules modules_{files_, [this](const std::string& file) { return load_module(files_, file); }};
  Watchdog watchdog_;
  std::future<health::Measured> self_test_;
  NetworkCard card_;
  inventory::Ipv4 host_ = 0;
  std::uint16_t control_port_ = 0;        // 0 = nobody listens yet
  std::unique_ptr<AddressKeeper> keeper_; // of whoever serves it: boot(), then the thread, then end()
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace

bool is_init(int argc, char** argv) {
  if (::getpid() != 1) return false;
  for (int i = 1; i < argc; ++i) // words that the kernel did not understand it hands to init
    if (std::string_view(argv[i]).starts_with("--")) return false;
  return true;
}

std::unique_ptr<DuckInit> DuckInit::start(std::string boot_id) { return std::make_unique<RealDuckInit>(std::move(boot_id)); }

} // namespace ductl::agent::init
