// A local flock as a user has one: an inventory file, XDG folders of its own, the built programs, and a tiny random model with a
// byte-level tokenizer. Brought down, and looked after for leftovers, by its destructor.
#pragma once

#include "tests/support/program.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace ductl::test {

inline constexpr int kTinyVocab = 260;                     // 256 bytes and the markers of ChatML
inline constexpr int kTinyLayers = 4, kTinySlicesEach = 6; // of each layer's one FFN

// A llama checkpoint whose answers never end by themselves: no marker is ever the most probable token.
void write_tiny_model(const std::filesystem::path& folder);

struct TinyFlockOptions {
  int ducks = 3;
  std::string ducks_toml = {}, engine_toml = {}, limits_toml = {}; // more lines of these tables
};

class TinyFlock {
public:
  explicit TinyFlock(const TinyFlockOptions& options = {});
  ~TinyFlock();
  TinyFlock(const TinyFlock&) = delete;
  TinyFlock& operator=(const TinyFlock&) = delete;

  void write_inventory(const TinyFlockOptions& options) const;
  [[nodiscard]] std::filesystem::path model() const { return folder_.path() / "model"; }
  [[nodiscard]] std::filesystem::path state() const { return folder_.path() / "state/ductl" / name_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  [[nodiscard]] std::string address(int duck) const; // of duck01, duck02, ...: 1, 2, ...

  [[nodiscard]] std::vector<std::string> argv(const std::vector<std::string>& arguments) const;
  [[nodiscard]] ProgramOptions options(std::chrono::seconds limit = std::chrono::seconds(60)) const;
  [[nodiscard]] ProgramResult ductl(const std::vector<std::string>& arguments) const;
  [[nodiscard]] nlohmann::json json(const std::vector<std::string>& arguments, int expected_status = 0) const;

  [[nodiscard]] int pid_of(const std::string& process) const; // by its run file; 0 = none
  // Command lines of all processes that have this flock's folder in them.
  [[nodiscard]] std::vector<std::string> processes() const;

private:
  TempFolder folder_;
  std::string name_, subnet_;
  int api_port_;
};

// Command lines of all running duck-agents and duck-engines that name `word`.
[[nodiscard]] std::vector<std::string> processes_naming(const std::string& word);

} // namespace ductl::test
