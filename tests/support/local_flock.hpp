// A local flock as a user has one: an inventory file, XDG folders of its own, the built programs. Brought down, and looked
// after for leftovers, when it goes.
#pragma once

#include "tests/support/program.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ductl::test {

// A TCP port of 127.0.0.1 that the kernel gives to nobody else while this lives; a server may still listen on it.
class HeldPort {
public:
  HeldPort();
  ~HeldPort();
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  [[nodiscard]] int number() const { return number_; }

private:
  int descriptor_, number_ = 0;
};

struct LocalFlockOptions {
  std::string model = "model"; // checkpoint folder; relative to the flock's own folder
  int ducks = 3;
  std::string names = {}; // of the ducks, as the inventory writes a list; empty = duck01, duck02, ...
  std::string ducks_toml = {}, engine_toml = {}, limits_toml = {}; // more lines of these tables
};

class LocalFlock {
public:
  explicit LocalFlock(const LocalFlockOptions& options);
  ~LocalFlock(); // ductl down --yes
  LocalFlock(const LocalFlock&) = delete;
  LocalFlock& operator=(const LocalFlock&) = delete;

  void write_inventory(const LocalFlockOptions& options) const;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] std::filesystem::path state() const { return folder_.path() / "state/ductl" / name_; }
  [[nodiscard]] std::string address(int duck) const; // of duck01, duck02, ...: 1, 2, ...

  // `ductl -i <inventory> arguments...` in the flock's environment.
  [[nodiscard]] std::vector<std::string> argv(const std::vector<std::string>& arguments) const;
  [[nodiscard]] ProgramOptions options(std::chrono::seconds limit = std::chrono::seconds(60)) const;
  [[nodiscard]] ProgramResult ductl(const std::vector<std::string>& arguments,
                                    std::chrono::seconds limit = std::chrono::seconds(60)) const;
  [[nodiscard]] nlohmann::json json(const std::vector<std::string>& arguments, int expected_status = 0) const;

  [[nodiscard]] int pid_of(const std::string& process) const; // by its run file; 0 = none
  // Command lines of all processes that have this flock's folder in them.
  [[nodiscard]] std::vector<std::string> processes() const;

private:
  TempFolder folder_;
  std::string name_, subnet_;
  HeldPort api_port_;
};

// Command lines of all running duck-agents and duck-engines that name `word`.
[[nodiscard]] std::vector<std::string> processes_naming(const std::string& word);

} // namespace ductl::test
