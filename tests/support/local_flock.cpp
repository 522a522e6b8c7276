#include "tests/support/local_flock.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ductl::test {

// Bound with SO_REUSEADDR and never listening: a server that sets that option too, as ours do, can take the port all the same.
HeldPort::HeldPort() : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int yes = 1;
  const bool bound = setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                     bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!bound) throw std::runtime_error("no free port");
  number_ = ntohs(address.sin_port);
}

HeldPort::~HeldPort() { close(descriptor_); }

LocalFlock::LocalFlock(const LocalFlockOptions& options) {
  static std::atomic<int> count{0};
  const int number = count++;
  name_ = fmt::format("test-{}-{}", getpid(), number);
  // A subnet of its own: tests run side by side.
  subnet_ = fmt::format("127.{}.{}", 64 + getpid() % 128, (getpid() / 128 + number) % 250 + 1);
  write_inventory(options);
}

LocalFlock::~LocalFlock() {
  const ProgramResult down = ductl({"down", "--yes"});
  EXPECT_EQ(down.status, 0) << down.err;
  EXPECT_TRUE(processes().empty()) << processes().front();
}

void LocalFlock::write_inventory(const LocalFlockOptions& options) const {
  std::ofstream(folder_.path() / "flock.toml")
      << fmt::format("[flock]\nname = \"{}\"\n[[port]]\nname = \"loopback\"\ninterface = \"lo\"\naddress = \"{}.1/24\"\n", name_,
                     subnet_)
      << fmt::format("[[ducks]]\nname = \"{}\"\naddress = \"{}.[101-{}]\"\n{}\n",
                     options.names.empty() ? fmt::format("duck[01-{:02}]", options.ducks) : options.names, subnet_,
                     100 + options.ducks, options.ducks_toml)
      << "[power]\ndriver = \"process\"\n[model]\nsource = \"" << options.model
      << fmt::format("\"\n[engine]\napi_port = {}\n{}\n[limits]\n{}\n", api_port_.number(), options.engine_toml,
                     options.limits_toml);
}

std::string LocalFlock::address(int duck) const { return fmt::format("{}.{}", subnet_, 100 + duck); }

std::vector<std::string> LocalFlock::argv(const std::vector<std::string>& arguments) const {
  std::vector<std::string> all{"ductl", "-i", (folder_.path() / "flock.toml").string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

ProgramOptions LocalFlock::options(std::chrono::seconds limit) const {
  ProgramOptions options;
  options.environment = {{"XDG_STATE_HOME", (folder_.path() / "state").string()},
                         {"XDG_CACHE_HOME", (folder_.path() / "cache").string()},
                         {"XDG_CONFIG_HOME", (folder_.path() / "config").string()},
                         {"TMPDIR", (folder_.path() / "tmp").string()}};
  std::filesystem::create_directories(folder_.path() / "tmp");
  options.limit = limit;
  return options;
}

ProgramResult LocalFlock::ductl(const std::vector<std::string>& arguments, std::chrono::seconds limit) const {
  return run_program(argv(arguments), options(limit));
}

nlohmann::json LocalFlock::json(const std::vector<std::string>& arguments, int expected_status) const {
  const ProgramResult result = ductl(arguments);
  EXPECT_EQ(result.status, expected_status) << result.err;
  auto parsed = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << result.out << result.err;
  return parsed;
}

int LocalFlock::pid_of(const std::string& process) const {
  const auto record = nlohmann::json::parse(text_of(state() / "run" / (process + ".json")), nullptr, false);
  return record.is_object() ? record.value("pid", 0) : 0;
}

std::vector<std::string> LocalFlock::processes() const { return processes_naming(folder_.path().string()); }

std::vector<std::string> processes_naming(const std::string& word) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::string line = text_of(entry.path() / "cmdline");
    std::replace(line.begin(), line.end(), '\0', ' ');
    const bool ours = line.find("/duck-agent ") != std::string::npos || line.find("/duck-engine ") != std::string::npos;
    if (ours && line.find(word) != std::string::npos) found.push_back(line);
  }
  return found;
}

} // namespace ductl::test
