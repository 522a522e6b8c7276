#include "agent/init/machine.hpp"

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

namespace ductl::agent::init {
namespace {

struct Mount {
  const char *type, *at;
  unsigned long flags;
  const char* options;
  bool needed;
};
constexpr Mount kMounts[] = {
    {"proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "", true},
    {"sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC, "", true},
    {"devtmpfs", "/dev", MS_NOSUID, "mode=0755", true},
    {"tmpfs", "/run", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=16m", true},
    {"tmpfs", "/tmp", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=16m", true},
    {"pstore", "/sys/fs/pstore", MS_NOSUID | MS_NODEV | MS_NOEXEC, "", false},
};

} // namespace

Expected<void> mount_file_systems() {
  for (const Mount& mount : kMounts) {
    (void)::mkdir(mount.at, 0755);
    if (::mount(mount.type, mount.at, mount.type, mount.flags, mount.options) == 0 || errno == EBUSY || !mount.needed) continue;
    return fail(ErrorCode::kState, fmt::format("{} cannot be mounted: {}", mount.type, std::strerror(errno)), mount.at,
                "take Debian's kernel, as the image does");
  }
  return {};
}

void take_over() {
  std::signal(SIGCHLD, SIG_IGN);
  (void)::reboot(RB_DISABLE_CAD);
}

void set_wall_clock(std::int64_t ms_since_1970) {
  const timespec time{ms_since_1970 / 1000, ms_since_1970 % 1000 * 1'000'000};
  (void)::clock_settime(CLOCK_REALTIME, &time);
}

void restart_machine() {
  ::sync();
  (void)::reboot(RB_AUTOBOOT);
  for (;;) ::pause(); // process 1 may not end; the watchdog does the rest
}

void power_off_machine() {
  ::sync();
  (void)::reboot(RB_POWER_OFF);
  for (;;) ::pause();
}

} // namespace ductl::agent::init
