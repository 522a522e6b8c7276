// An engine of a few lines, and an inventory that leads to it: what `ductl run` and `ductl chat` send, and how they take answers.
#pragma once

#include "netboot/http/http_server.hpp"
#include "tests/support/program.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ductl::test {

// Answers "echo: " and the last message. "hang" has an answer that begins with "partial" and never ends.
class FakeEngine {
public:
  FakeEngine();

  [[nodiscard]] std::vector<std::string> argv(const std::vector<std::string>& arguments) const; // ductl -i INVENTORY ...
  [[nodiscard]] ProgramOptions options(const std::string& input = "") const;
  [[nodiscard]] ProgramResult ductl(const std::vector<std::string>& arguments, const std::string& input = "") const;

  [[nodiscard]] std::vector<nlohmann::json> requests() const; // bodies, in order
  [[nodiscard]] std::string last_message() const;             // of the last request; "" without one
  [[nodiscard]] bool wait_until_left_alone() const;           // the peer of "hang" has gone
  [[nodiscard]] std::filesystem::path state() const { return folder_.path() / "state/ductl/fake"; }
  void leave() { server_.reset(); } // from now on nobody answers

private:
  void answer(const http::Request& request, http::Response& response);

  TempFolder folder_;
  mutable std::mutex mutex_;
  std::vector<nlohmann::json> requests_;
  std::atomic<bool> left_alone_{false};
  std::unique_ptr<http::Server> server_; // last: its handlers use the others
};

} // namespace ductl::test
