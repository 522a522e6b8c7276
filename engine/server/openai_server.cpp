#include "engine/server/openai_server.hpp"

#include "engine/server/access.hpp"
#include "engine/server/api_error.hpp"
#include "engine/server/api_state.hpp"
#include "engine/server/chat_endpoint.hpp"
#include "engine/server/stats_json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace ductl::engine {
namespace {

using nlohmann::json;

constexpr int kOtherHandlers = 8; // beside the generations: /health must answer while all of them run

void send_json(http::Response& response, int status, const json& body, const http::Headers& headers = {}) {
  response.send(status, "application/json", body.dump(-1, ' ', false, json::error_handler_t::replace), headers);
}

class Server final : public OpenAiServer {
public:
  explicit Server(const ApiOptions& options) : options_(options), chat_(state_, options.generations_max, options.ping_interval) {}
  ~Server() override { Server::stop(); }

  Expected<void> listen() {
    http::ServerOptions http_options;
    http_options.address = options_.address;
    http_options.port = options_.port;
    http_options.workers = options_.generations_max + kOtherHandlers;
    auto server = http::Server::start(http_options, [this](const http::Request& q, http::Response& r) { route(q, r); });
    if (!server) return tl::unexpected(server.error());
    http_ = std::move(*server);
    return {};
  }

  void set_stage(std::string stage) override { state_.set_stage(std::move(stage)); }
  void ready(Generator& generator) override {
    created_ = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
    state_.set_generator(generator);
  }
  std::uint16_t port() const override { return http_->port(); }
  void stop() override {
    if (http_) http_->stop();
  }

private:
  void route(const http::Request& request, http::Response& response) {
    if (const auto refusal = refused(request)) return send_error(response, *refusal);
    if (request.path == "/health" || request.path == "/ready") return only("GET", request, response) ? health(response) : void();
    const bool chat = request.path == "/v1/chat/completions", stats = request.path == "/v1/stats";
    const bool models = request.path == "/v1/models", model = request.path.starts_with("/v1/models/");
    if (!chat && !stats && !models && !model) {
      return send_error(response,
                        api_error(404, "not_found", fmt::format("there is nothing at {}; see docs/api.md", request.path)));
    }
    if (!only(chat ? "POST" : "GET", request, response)) return;
    Generator* generator = state_.generator();
    if (generator == nullptr) return send_loading(response, state_.stage());
    if (chat) return chat_.answer(*generator, request, response);
    if (stats) return send_stats(*generator, response);
    if (models) return send_json(response, 200, {{"object", "list"}, {"data", json::array({model_json(*generator)})}});
    const std::string id = request.path.substr(std::string_view("/v1/models/").size());
    if (id == generator->model_name()) return send_json(response, 200, model_json(*generator));
    send_error(response, api_error(404, "model_not_found", fmt::format("the model \"{}\" is not served here", id), "model"));
  }

  std::optional<ApiError> refused(const http::Request& request) const {
    const std::string_view host = request.header("host");
    if (is_loopback(options_.address) && !is_loopback_host(host)) {
      return api_error(
          403, "host_not_allowed",
          fmt::format("the Host header names \"{}\", which is not this machine; use http://127.0.0.1:{}", host, port()));
    }
    if (is_foreign_origin(request.header("origin"), host)) {
      return api_error(403, "origin_not_allowed", "requests by web pages of another origin are not taken");
    }
    const bool open = options_.keys.empty() || request.path == "/health" || request.path == "/ready";
    if (!open && !is_known_key(request.bearer(), options_.keys)) {
      return api_error(401, "invalid_api_key", "a valid key is needed: send the header \"Authorization: Bearer KEY\"");
    }
    return std::nullopt;
  }

  static bool only(std::string_view method, const http::Request& request, http::Response& response) {
    if (request.method == method || (method == "GET" && request.method == "HEAD")) return true;
    const ApiError error = api_error(405, "method_not_allowed", fmt::format("{} takes only {}", request.path, method));
    send_json(response, 405, error.json(), {{"Allow", std::string(method)}});
    return false;
  }

  void health(http::Response& response) const {
    const Generator* generator = state_.generator();
    if (generator == nullptr) return send_loading(response, state_.stage());
    if (const std::optional<Error> broken = generator->broken()) {
      json body = to_api_error(*broken).json();
      body["error"]["stage"] = "broken";
      return send_json(response, 503, body, {{"Retry-After", "5"}});
    }
    send_json(response, 200, {{"status", "ok"}, {"model", generator->model_name()}});
  }

  static void send_loading(http::Response& response, const std::string& stage) {
    json body = api_error(503, "loading", "the engine is not ready yet: " + stage).json();
    body["error"]["stage"] = stage;
    send_json(response, 503, body, {{"Retry-After", "1"}});
  }

  json model_json(const Generator& generator) const {
    return {{"id", generator.model_name()},
            {"object", "model"},
            {"created", created_.load()},
            {"owned_by", "ductl"},
            {"meta", {{"context_length", generator.context().tokens}, {"chat_format", generator.chat_format().name()}}}};
  }

  void send_stats(const Generator& generator, http::Response& response) const {
    const ApiState::Counts counts = state_.counts();
    json body = {{"schema", "ductl/stats/v1"},
                 {"model", generator.model_name()},
                 {"requests",
                  {{"running", counts.running},
                   {"answered", counts.answered},
                   {"failed", counts.failed},
                   {"cancelled", counts.cancelled},
                   {"refused", counts.refused}}},
                 {"last", nullptr}};
    if (const std::optional<GenerationStats> last = state_.last()) {
      body["last"] = stats_json(*last);
      body["last"]["stats_line"] = last->line();
    }
    send_json(response, 200, body);
  }

  ApiOptions options_;
  ApiState state_;
  ChatEndpoint chat_;
  std::atomic<std::int64_t> created_{0};
  std::unique_ptr<http::Server> http_; // last: its threads use the others
};

} // namespace

Expected<std::unique_ptr<OpenAiServer>> OpenAiServer::start(const ApiOptions& options) {
  if (!is_loopback(options.address) && options.keys.empty()) {
    return fail(ErrorCode::kInventoryValue, "the API would listen beyond this machine without a key", "the engine's API address",
                "put a key into the api-keys file of the flock's state folder (docs/security.md), or bind to 127.0.0.1");
  }
  auto server = std::make_unique<Server>(options);
  if (auto ok = server->listen(); !ok) return tl::unexpected(ok.error());
  spdlog::info("API on port {}{}", server->port(), options.keys.empty() ? ", no key needed" : "");
  return server;
}

} // namespace ductl::engine
