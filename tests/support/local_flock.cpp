#include "tests/support/local_flock.hpp"

#include <atomic>
#include <fstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::test {

int free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(descriptor);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

LocalFlock::LocalFlock(const LocalFlockOptions& options) : inventory_(folder_.path() / "flock.toml"), api_port_(free_port()) {
  static std::atomic<int> count{0};
  const int number = count++;
  name_ = fmt::format("test-{}-{}", getpid(), number);
  // A subnet of its own, so that flocks of tests that run side by side do not meet.
  const std::string subnet = fmt::format("127.{}.{}", 64 + getpid() % 128, (getpid() / 128 + number) % 250 + 1);
  std::ofstream out(inventory_);
  out << fmt::format(R"([flock]
name = "{0}"

[[port]]
name = "loopback"
interface = "lo"
address = "{1}.1"
prefix_length = 24

[[ducks]]
port = "loopback"
name = "duck[{2}-{3}]"
address = "{1}.[101-{4}]"

[agent_ports]
control = 0
data = 0

[power]
driver = "process"

[model]
source = "{5}"

[engine]
api_port = {6}
{7}

[limits]
{8}
)",
                     name_, subnet, "01", fmt::format("{:02}", options.ducks), 100 + options.ducks, options.model, api_port_,
                     options.engine_toml, options.limits_toml);
}

LocalFlock::~LocalFlock() { static_cast<void>(ductl({"down", "--yes"})); }

std::filesystem::path LocalFlock::state() const { return folder_.path() / "state/ductl" / name_; }

std::vector<std::string> LocalFlock::argv(const std::vector<std::string>& arguments) const {
  std::vector<std::string> all{"ductl", "-i", inventory_.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

ProgramOptions LocalFlock::options(std::chrono::seconds limit) const {
  ProgramOptions options;
  options.environment = {{"XDG_STATE_HOME", (folder_.path() / "state").string()}, {"XDG_CACHE_HOME", (folder_.path() / "cache").string()}};
  options.limit = limit;
  return options;
}

ProgramResult LocalFlock::ductl(const std::vector<std::string>& arguments, std::chrono::seconds limit) const {
  return run_program(argv(arguments), options(limit));
}

} // namespace ductl::test
