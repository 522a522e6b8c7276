#include "tests/agent/agent_process.hpp"

#include "inventory/inventory.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

extern char** environ;

namespace ductl::agent {

namespace {

constexpr int kReadyDescriptor = 9;

std::string read_line(int fd, std::chrono::seconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::string line;
  char byte = 0;
  while (line.empty() || line.back() != '\n') {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0 || ::read(fd, &byte, 1) != 1) return "";
    line.push_back(byte);
  }
  return line;
}

std::size_t append(char* bytes, std::size_t, std::size_t count, void* out) {
  static_cast<std::string*>(out)->append(bytes, count);
  return count;
}

} // namespace

AgentProcess::AgentProcess(const AgentStart& start) : name_(start.name), address_(start.address) {
  const std::string key_file = folder_.path() / "key";
  std::ofstream(key_file) << start.key_text << "\n";
  ::chmod(key_file.c_str(), start.key_mode);
  std::vector<std::string> arguments = {DUCTL_BIN_DIR "/duck-agent",
                                        "--name",
                                        start.name,
                                        "--flock",
                                        "test",
                                        "--address",
                                        start.address,
                                        "--control-port",
                                        start.control_port,
                                        "--data-port",
                                        "0",
                                        "--key-file",
                                        key_file,
                                        "--log",
                                        folder_.path() / "agent.log",
                                        "--ready-fd",
                                        std::to_string(kReadyDescriptor)};
  arguments.insert(arguments.end(), start.more.begin(), start.more.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], kReadyDescriptor);
  posix_spawn_file_actions_addopen(&actions, 2, (folder_.path() / "stderr").c_str(), O_WRONLY | O_CREAT, 0600);
  const int failed = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed == 0) ready_line_ = read_line(ends[0], std::chrono::seconds(20));
  ::close(ends[0]);
  if (failed != 0) throw std::runtime_error("duck-agent cannot be started");
  const nlohmann::json ready = nlohmann::json::parse(ready_line_, nullptr, false);
  if (ready.is_object() && ready.value("ready", false)) {
    control_port_ = ready.at("control_port").get<std::uint16_t>();
    data_port_ = ready.at("data_port").get<std::uint16_t>();
  }
}

AgentProcess::~AgentProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string AgentProcess::log_text() const {
  std::ifstream in(folder_.path() / "agent.log");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string AgentProcess::url(const std::string& path) const {
  return fmt::format("http://{}:{}{}", address_, control_port_, path);
}

ControlClient AgentProcess::client(const std::string& key) const {
  return {name_, {*inventory::parse_ipv4(address_), control_port_}, key, std::chrono::seconds(20)};
}

void AgentProcess::signal(int number) const { ::kill(pid_, number); }

std::optional<int> AgentProcess::wait(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

HttpAnswer http_call(const std::string& method, const std::string& url, const std::string& body,
                     const std::vector<std::string>& headers) {
  HttpAnswer answer;
  CURL* curl = curl_easy_init();
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : headers) list = curl_slist_append(list, header.c_str());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
  if (method != "GET") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  }
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 20L);
  if (curl_easy_perform(curl) == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  curl_slist_free_all(list);
  curl_easy_cleanup(curl);
  return answer;
}

} // namespace ductl::agent
