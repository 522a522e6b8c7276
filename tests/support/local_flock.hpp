// A local flock for one test: its own inventory, addresses, ports, and state and cache folders; brought down when it goes.
#pragma once

#include "tests/support/program.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace ductl::test {

struct LocalFlockOptions {
  std::string model = {}; // checkpoint folder
  int ducks = 4;
  std::string engine_toml = {}; // more lines of [engine], e.g. "hidden = \"bf16\""
  std::string limits_toml = {}; // more lines of [limits]
};

class LocalFlock {
public:
  explicit LocalFlock(const LocalFlockOptions& options);
  ~LocalFlock(); // ductl down --yes
  LocalFlock(const LocalFlock&) = delete;
  LocalFlock& operator=(const LocalFlock&) = delete;

  // `ductl -i <inventory> arguments...` in the flock's environment.
  [[nodiscard]] ProgramResult ductl(const std::vector<std::string>& arguments, std::chrono::seconds limit = std::chrono::seconds(60)) const;
  [[nodiscard]] std::vector<std::string> argv(const std::vector<std::string>& arguments) const;
  [[nodiscard]] ProgramOptions options(std::chrono::seconds limit) const;
  [[nodiscard]] const std::filesystem::path& inventory() const { return inventory_; }
  [[nodiscard]] std::filesystem::path state() const; // the flock's state folder
  [[nodiscard]] int api_port() const { return api_port_; }

private:
  TempFolder folder_;
  std::filesystem::path inventory_;
  std::string name_;
  int api_port_ = 0;
};

// A TCP port that nobody listens on just now.
[[nodiscard]] int free_port();

} // namespace ductl::test
