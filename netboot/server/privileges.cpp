#include "netboot/server/privileges.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ductl::netboot {

Expected<void> drop_privileges() {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{}; // effective, permitted, inheritable; ambient follows
  if (::syscall(SYS_capset, &header, none.data()) != 0 || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail(ErrorCode::kBootServer, fmt::format("the boot server cannot give up its privileges: {}", std::strerror(errno)),
                "boot server", "this kernel or container forbids capset; nothing is served with more rights than needed");
  return {};
}

} // namespace ductl::netboot
