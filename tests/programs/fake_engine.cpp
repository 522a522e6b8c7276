#include "tests/programs/fake_engine.hpp"

#include <chrono>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace ductl::test {
namespace {

using namespace std::chrono_literals;

std::string text_event(const std::string& text) {
  const nlohmann::json choice{{"delta", {{"content", text}}}};
  return "data: " + nlohmann::json{{"choices", nlohmann::json::array({choice})}}.dump() + "\n\n";
}

} // namespace

FakeEngine::FakeEngine() {
  auto started =
      http::Server::start({}, [this](const http::Request& request, http::Response& response) { answer(request, response); });
  if (!started) throw std::runtime_error(started.error().text());
  server_ = std::move(*started);
  std::ofstream(folder_.path() / "flock.toml")
      << "[flock]\nname = \"fake\"\n[[port]]\nname = \"lo\"\ninterface = \"lo\"\naddress = \"127.21.9.1/24\"\n"
         "[[duck]]\nname = \"duck01\"\naddress = \"127.21.9.101\"\n[model]\nsource = \"none\"\n"
      << fmt::format("[engine]\napi_port = {}\n", server_->port());
}

std::vector<std::string> FakeEngine::argv(const std::vector<std::string>& arguments) const {
  std::vector<std::string> all{"ductl", "-i", (folder_.path() / "flock.toml").string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

ProgramOptions FakeEngine::options(const std::string& input) const {
  ProgramOptions options;
  options.environment = {{"XDG_STATE_HOME", (folder_.path() / "state").string()},
                         {"HOME", folder_.path().string()}, // no ~/.editrc
                         {"DUCTL_API_KEY", ""}};
  options.input = input;
  return options;
}

ProgramResult FakeEngine::ductl(const std::vector<std::string>& arguments, const std::string& input) const {
  return run_program(argv(arguments), options(input));
}

void FakeEngine::answer(const http::Request& request, http::Response& response) {
  auto body = nlohmann::json::parse(request.body, nullptr, false);
  const std::string message = body.at("messages").back().at("content");
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(body));
  }
  response.begin_stream(200, "text/event-stream");
  if (message == "hang") {
    response.write(text_event("partial"));
    for (int i = 0; i < 20000 && !response.peer_gone(); ++i) std::this_thread::sleep_for(1ms);
    left_alone_ = response.peer_gone();
    return;
  }
  if (message != "say nothing") {
    response.write(text_event("echo: "));
    response.write(text_event(message));
  }
  response.write("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],"
                 "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2},\"ductl\":{\"stats_line\":\"time 1.25s\"}}\n\n"
                 "data: [DONE]\n\n");
}

std::vector<nlohmann::json> FakeEngine::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::string FakeEngine::last_message() const {
  const std::lock_guard lock(mutex_);
  return requests_.empty() ? "" : requests_.back().at("messages").back().at("content").get<std::string>();
}

bool FakeEngine::wait_until_left_alone() const {
  for (int i = 0; i < 20000 && !left_alone_; ++i) std::this_thread::sleep_for(1ms);
  return left_alone_;
}

} // namespace ductl::test
