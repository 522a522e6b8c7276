// A duck-agent of the build as a process: kernel-chosen ports, a key of its own, everything removed when it goes.
#pragma once

#include "agent/client/control_client.hpp"
#include "tests/support/tiny_checkpoint.hpp"

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace ductl::agent {

inline constexpr const char* kTestKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

struct AgentStart {
  std::string name = "duck1", address = "127.21.9.101", control_port = "0", key_text = kTestKey;
  unsigned key_mode = 0600;
  std::vector<std::string> more{}; // further arguments
};

class AgentProcess {
public:
  explicit AgentProcess(const AgentStart& start = {});
  ~AgentProcess(); // SIGKILL if it still runs
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  [[nodiscard]] const std::string& ready_line() const { return ready_line_; } // "" = it ended without one
  [[nodiscard]] bool ready() const { return control_port_ != 0; }
  [[nodiscard]] std::uint16_t control_port() const { return control_port_; }
  [[nodiscard]] std::uint16_t data_port() const { return data_port_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string log_text() const;
  [[nodiscard]] std::string url(const std::string& path) const;
  [[nodiscard]] ControlClient client(const std::string& key = kTestKey) const;
  void signal(int number) const;
  // Exit status (128 + signal), nothing when it still runs after `limit`.
  [[nodiscard]] std::optional<int> wait(std::chrono::milliseconds limit);

private:
  test::TempFolder folder_;
  std::string name_, address_, ready_line_;
  pid_t pid_ = -1;
  std::uint16_t control_port_ = 0, data_port_ = 0;
};

// One HTTP exchange with any bytes, for what the client would never send.
struct HttpAnswer {
  long status = 0;
  std::string body;
};
[[nodiscard]] HttpAnswer http_call(const std::string& method, const std::string& url, const std::string& body,
                                   const std::vector<std::string>& headers);

} // namespace ductl::agent
