#include "agent/control_server.hpp"

#include "agent/client/adopt_message.hpp"
#include "agent/client/control_messages.hpp"
#include "agent/client/slice_frames.hpp"
#include "agent/host_facts.hpp"
#include "agent/log_tail.hpp"
#include "inventory/version.hpp"
#include "netboot/http/http_server.hpp"
#include "weights/stored_format.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <charconv>
#include <mutex>
#include <optional>

namespace ductl::agent {

namespace {

constexpr std::string_view kSlicesPrefix = "/v1/slices/";
constexpr std::size_t kLogBytes = 64 * 1024, kLogBytesMax = 1 << 20;
constexpr std::size_t kAdoptionBytesMax = 4096;
constexpr int kWorkers = 4, kConnectionsMax = 64;

template <class T> std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_hello(const http::Request& request) { return request.method == "GET" && request.path == "/v1/hello"; }

bool is_health(const http::Request& request) { return request.method == "GET" && request.path == "/v1/health"; }
bool is_adoption(const http::Request& request) { return request.method == "POST" && request.path == "/v1/adopt"; }

std::size_t body_bytes_max(const http::Request& head) {
  if (head.method == "GET") return 0;
  if (is_adoption(head)) return kAdoptionBytesMax; // anybody may send one
  return head.path == "/v1/slices" ? kSliceBodyBytesMax : kJsonBodyBytesMax;
}

std::int64_t wall_clock_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

inventory::Ipv4 peer_address(const http::Request& request) { // 0 = not known, which is nobody's
  return inventory::parse_ipv4(std::string_view(request.peer).substr(0, request.peer.find(':'))).value_or(0);
}

std::size_t active_slices(const ActiveIndex* index) {
  std::size_t count = 0;
  if (index)
    for (const ActiveLayer& layer : index->layers) count += layer.slices.size();
  return count;
}

class HttpControlServer final : public ControlServer {
public:
  HttpControlServer(const ControlServerOptions& options, Membership& membership, health::HealthWatch& health, SliceStore& store,
                    ExpertServer& expert_server, std::function<void()> power_off)
      : options_(options),
        membership_(membership),
        health_(health),
        store_(store),
        expert_server_(expert_server),
        power_off_(std::move(power_off)),
        started_(Clock::now()) {}

  Expected<void> listen() {
    http::ServerOptions http;
    http.address = options_.address;
    http.port = options_.port;
    http.body_bytes_max = kSliceBodyBytesMax;
    http.connections_max = kConnectionsMax;
    http.workers = kWorkers;
    http.admit = [this](const http::Request& head) { return admit(head); };
    auto server =
        http::Server::start(http, [this](const http::Request& request, http::Response& response) { handle(request, response); });
    if (!server) return tl::unexpected(server.error());
    server_ = std::move(*server);
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return server_->port(); }
  void stop() override { server_->stop(); }

private:
  struct Route {
    const char *method, *path;
    void (HttpControlServer::*handler)(const http::Request&, http::Response&);
  };

  [[nodiscard]] bool has_key(const http::Request& request) const { return membership_.is_key(request.bearer()); }
  [[nodiscard]] std::string name() const { return membership_.member().name; }

  [[nodiscard]] Error no_key() const {
    const Member member = membership_.member();
    if (member.key.empty())
      return {ErrorCode::kAgentRefused, "this duck belongs to no flock yet", options_.own ? options_.own->mac : "",
              "ductl up adopts it, from the host that it booted from"};
    return {ErrorCode::kAgentRefused, "the flock key is missing or wrong", member.name,
            "use the key of flock " + member.flock + ", the file key in its state folder"};
  }

  // Network thread: from the head alone.
  http::Admission admit(const http::Request& head) const {
    http::Admission admission;
    admission.body_bytes_max = body_bytes_max(head);
    if (is_hello(head) || is_health(head)) return admission;
    if (!is_adoption(head) && !has_key(head)) {
      admission.status = 401;
      admission.body = error_text(no_key());
    } else if (head.header("x-ductl-protocol") != std::to_string(kControlProtocol)) {
      const std::string_view theirs = head.header("x-ductl-protocol");
      admission.status = 409;
      admission.body = error_text({ErrorCode::kAgentVersion,
                                   fmt::format("agent {} speaks control protocol {}, the request {}", kBuild, kControlProtocol,
                                               theirs.empty() ? "none" : theirs),
                                   name(), "run the same version of ductl on the host and on the ducks"});
    }
    return admission;
  }

  void handle(const http::Request& request, http::Response& response) {
    static constexpr Route kRoutes[] = {
        {"GET", "/v1/hello", &HttpControlServer::hello},       {"GET", "/v1/stats", &HttpControlServer::stats},
        {"GET", "/v1/digests", &HttpControlServer::digests},   {"GET", "/v1/log", &HttpControlServer::log},
        {"PUT", "/v1/model", &HttpControlServer::model},       {"PUT", "/v1/slices", &HttpControlServer::put},
        {"POST", "/v1/slices/drop", &HttpControlServer::drop}, {"POST", "/v1/epoch", &HttpControlServer::epoch},
        {"POST", "/v1/session", &HttpControlServer::session},  {"POST", "/v1/power-off", &HttpControlServer::power_off},
        {"GET", "/v1/health", &HttpControlServer::health},     {"POST", "/v1/adopt", &HttpControlServer::adopt},
        {"POST", "/v1/reboot", &HttpControlServer::reboot},
    };
    bool path_known = false;
    for (const Route& route : kRoutes) {
      if (request.path != route.path) continue;
      if (request.method == route.method) return (this->*route.handler)(request, response);
      path_known = true;
    }
    if (!path_known && request.method == "GET" && request.path.starts_with(kSlicesPrefix)) return list(request, response);
    const std::string message = fmt::format("there is no {} {}", request.method, request.path);
    refuse(response, path_known ? 405 : 404, {ErrorCode::kAgentRefused, message, name(), "see docs/control.md"});
  }

  static void answer(http::Response& response, std::string body = "{}") {
    response.send(200, "application/json", std::move(body));
  }

  void refuse(http::Response& response, int status, Error error) const {
    if (error.place.empty()) error.place = name();
    spdlog::warn("refused: {}", error.message);
    response.send(status, "application/json", error_text(error));
  }

  // Reads.

  void hello(const http::Request& request, http::Response& response) {
    const MemoryFacts memory = memory_facts();
    const auto active = store_.active();
    Hello hello;
    hello.protocol = kControlProtocol;
    const Member member = membership_.member();
    hello.name = member.name;
    hello.flock = member.flock;
    hello.adopted = !member.key.empty();
    if (options_.own) {
      hello.mac = options_.own->mac;
      hello.image = options_.own->image;
    }
    hello.version = kBuild;
    hello.boot_id = options_.boot_id;
    hello.pid = ::getpid();
    hello.memory_bytes = std::min(memory.total_bytes, options_.memory_limit_bytes);
    hello.memory_available_bytes = std::min(memory.available_bytes, options_.memory_limit_bytes);
    hello.cores = core_count();
    hello.kernels = options_.kernels;
    hello.threads = options_.threads;
    hello.model_id = store_.model_id();
    if (!hello.model_id.empty()) hello.format = weights::format_name(store_.format());
    hello.epoch = active ? active->epoch : 0;
    hello.slices_held = store_.count();
    hello.slices_active = active_slices(active.get());
    hello.slice_bytes = store_.bytes();
    hello.data_port = options_.data_port;
    hello.uptime_ms =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_).count());
    if (has_key(request)) { // the tag keeps strangers out of the data plane
      const std::lock_guard lock(session_mutex_);
      hello.session_tag = session_.tag;
    }
    answer(response, hello_text(hello));
  }

  void stats(const http::Request&, http::Response& response) {
    const ExpertServerStats& from = expert_server_.stats();
    answer(response, stats_text({.rounds = from.rounds,
                                 .slices = from.slices,
                                 .frames_in = from.frames_in,
                                 .frames_out = from.frames_out,
                                 .frames_dropped = from.frames_dropped,
                                 .frames_corrupt = from.frames_corrupt,
                                 .frames_foreign = from.frames_foreign,
                                 .nacks_sent = from.nacks_sent,
                                 .nacks_received = from.nacks_received,
                                 .refusals = from.refusals,
                                 .compute_ns = from.compute_ns}));
  }

  void health(const http::Request& request, http::Response& response) {
    std::optional<std::int64_t> skew;
    if (const auto asked = request.query.find("time_ms"); asked != request.query.end()) {
      const auto theirs = parse_number<std::int64_t>(asked->second);
      if (!theirs || *theirs < 0)
        return refuse(response, 400, {ErrorCode::kAgentRefused, "'time_ms' must be milliseconds since 1970", {}, {}});
      skew = wall_clock_ms() - *theirs;
    }
    health_.set_kernel_rate(kernel_rate());
    if (!options_.own) (void)health_.look(Clock::now()); // who owns the machine watches it all the time
    answer(response, health_text(health_.report(Clock::now(), skew)));
  }

  // Bytes of weights a second, over all rounds so far.
  [[nodiscard]] std::optional<double> kernel_rate() const {
    const ExpertServerStats& from = expert_server_.stats();
    if (from.compute_ns == 0 || from.slices == 0) return std::nullopt;
    return static_cast<double>(from.slices) * static_cast<double>(store_.slice_bytes()) * 1e9 /
           static_cast<double>(from.compute_ns);
  }

  void digests(const http::Request&, http::Response& response) {
    std::vector<weights::SliceDigest> digests;
    for (int layer = 0; layer < store_.layers(); ++layer) digests.push_back(weights::combined_digest(store_.list(layer)));
    answer(response, digests_text(digests));
  }

  void list(const http::Request& request, http::Response& response) {
    const auto layer = parse_number<std::uint16_t>(std::string_view(request.path).substr(kSlicesPrefix.size()));
    if (!layer || *layer >= store_.layers())
      return refuse(response, 404,
                    {ErrorCode::kAgentRefused, "there is no layer " + request.path.substr(kSlicesPrefix.size()), {}, {}});
    answer(response, held_text(store_.list(*layer)));
  }

  void log(const http::Request& request, http::Response& response) {
    const auto asked = request.query.find("bytes");
    const auto bytes = asked == request.query.end() ? kLogBytes : parse_number<std::size_t>(asked->second);
    if (!bytes || *bytes > kLogBytesMax)
      return refuse(response, 400, {ErrorCode::kAgentRefused, fmt::format("'bytes' must be 0..{}", kLogBytesMax), {}, {}});
    auto tail = options_.own ? options_.own->log(*bytes) : log_tail(options_.log, *bytes);
    if (!tail) return refuse(response, 500, tail.error());
    response.send(200, "text/plain; charset=utf-8", std::move(*tail));
  }

  // Writes.

  void model(const http::Request& request, http::Response& response) {
    const auto model = parse_model(request.body);
    if (!model) return refuse(response, 400, model.error());
    if (auto set = store_.set_model(*model); !set) return refuse(response, 409, set.error());
    spdlog::info("model {}: {} layers, hidden {}, {}", model->model_id, model->experts.size(), model->hidden,
                 weights::format_name(model->format));
    answer(response);
  }

  void put(const http::Request& request, http::Response& response) {
    const std::size_t slice_bytes = store_.slice_bytes();
    if (slice_bytes == 0)
      return refuse(response, 409, {ErrorCode::kAgentRefused, "there is no model yet", {}, "send the model first"});
    const auto slices = parse_slice_frames(std::as_bytes(std::span(request.body)), slice_bytes);
    if (!slices) return refuse(response, 400, slices.error());
    for (const OutgoingSlice& slice : *slices)
      if (auto stored = store_.put(slice.id, slice.bytes, slice.digest); !stored) return refuse(response, 409, stored.error());
    spdlog::info("{} slices stored, {} held", slices->size(), store_.count());
    answer(response);
  }

  void drop(const http::Request& request, http::Response& response) {
    const auto ids = parse_ids(request.body);
    if (!ids) return refuse(response, 400, ids.error());
    const std::size_t dropped = store_.drop(*ids);
    spdlog::info("{} slices dropped, {} held", dropped, store_.count());
    answer(response, fmt::format(R"({{"dropped":{}}})", dropped));
  }

  void epoch(const http::Request& request, http::Response& response) {
    const auto message = parse_epoch(request.body);
    if (!message) return refuse(response, 400, message.error());
    if (auto active = store_.activate(message->epoch, message->ids); !active) return refuse(response, 409, active.error());
    spdlog::info("epoch {} is active, {} slices", message->epoch, message->ids.size());
    answer(response);
  }

  void session(const http::Request& request, http::Response& response) {
    const auto message = parse_session(request.body);
    if (!message) return refuse(response, 400, message.error());
    const auto active = store_.active();
    if (!active || active->epoch != message->epoch)
      return refuse(response, 409,
                    {ErrorCode::kFlockEpoch,
                     fmt::format("a session of epoch {} while epoch {} is active", message->epoch, active ? active->epoch : 0),
                     {},
                     "bring the flock up to date with ductl up"});
    const DataSession session{message->tag, message->epoch, message->duck, message->bf16_hidden, message->compact_reply};
    {
      const std::lock_guard lock(session_mutex_);
      session_ = session;
      expert_server_.set_session(session);
    }
    spdlog::info("session of epoch {} as duck {}, hidden {}, {} replies", session.epoch, session.duck,
                 session.bf16_hidden ? "bf16" : "f32", session.compact_reply ? "compact" : "exact");
    answer(response);
  }

  void adopt(const http::Request& request, http::Response& response) {
    const auto adoption = parse_adoption(request.body);
    if (!adoption) return refuse(response, 400, adoption.error());
    if (auto adopted = membership_.adopt(*adoption, peer_address(request)); !adopted)
      return refuse(response, 409, adopted.error());
    health_.set_expected(adoption->expected);
    if (options_.own && adoption->time_ms != 0) {
      health_.set_clock_found(wall_clock_ms() - adoption->time_ms);
      options_.own->set_clock(adoption->time_ms);
    }
    spdlog::info("adopted by {}: {} of flock {}", request.peer, adoption->name, adoption->flock);
    answer(response);
  }

  void reboot(const http::Request&, http::Response& response) {
    if (!options_.own)
      return refuse(response, 409,
                    {ErrorCode::kAgentRefused, "the machine is not this agent's to restart", {}, "only netbooted ducks do that"});
    spdlog::info("told to restart");
    answer(response);
    options_.own->reboot();
  }

  void power_off(const http::Request&, http::Response& response) {
    spdlog::info("told to power off");
    answer(response);
    power_off_();
  }

  const ControlServerOptions options_;
  Membership& membership_;
  health::HealthWatch& health_;
  SliceStore& store_;
  ExpertServer& expert_server_;
  const std::function<void()> power_off_;
  const Instant started_;
  std::mutex session_mutex_;
  DataSession session_;
  std::unique_ptr<http::Server> server_; // last: it stops before what its handlers use goes
};

} // namespace

Expected<std::unique_ptr<ControlServer>> ControlServer::start(const ControlServerOptions& options, Membership& membership,
                                                              health::HealthWatch& health, SliceStore& store,
                                                              ExpertServer& expert_server, std::function<void()> power_off) {
  auto server = std::make_unique<HttpControlServer>(options, membership, health, store, expert_server, std::move(power_off));
  if (auto listening = server->listen(); !listening) return tl::unexpected(listening.error());
  return server;
}

} // namespace ductl::agent
