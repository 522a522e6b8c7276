#include "agent/client/control_client.hpp"

#include "agent/client/control_messages.hpp"
#include "agent/client/slice_frames.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <mutex>

namespace ductl::agent {

namespace {

constexpr std::size_t kAnswerBytesMax = 64u << 20;
constexpr long kSlowestBytesPerMs = 4096; // a body gets this much more time: 4 MB/s is far below any link that ducks have

void init_curl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

struct Answer {
  long status = 0;
  std::string body;
};

std::size_t take_answer(char* bytes, std::size_t, std::size_t count, void* user) {
  auto& body = *static_cast<std::string*>(user);
  if (body.size() + count > kAnswerBytesMax) return 0; // curl gives up
  body.append(bytes, count);
  return count;
}

std::string address_text(Endpoint endpoint) {
  const std::uint32_t a = endpoint.address;
  return fmt::format("{}.{}.{}.{}:{}", a >> 24, a >> 16 & 0xff, a >> 8 & 0xff, a & 0xff, endpoint.port);
}

} // namespace

struct ControlClient::Impl {
  Impl(std::string duck_name, Endpoint control, const std::string& key, std::chrono::milliseconds call_timeout, std::string log)
      : name(std::move(duck_name)), address(address_text(control)), log_hint(std::move(log)), timeout(call_timeout) {
    init_curl();
    curl = curl_easy_init();
    add_header(fmt::format("X-Ductl-Protocol: {}", kControlProtocol));
    add_header("Expect:");
    if (!key.empty()) add_header("Authorization: Bearer " + key);
  }
  ~Impl() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void add_header(const std::string& line) { headers = curl_slist_append(headers, line.c_str()); }

  [[nodiscard]] std::string url(std::string_view path) const { return fmt::format("http://{}{}", address, path); }

  Expected<Answer> exchange(const char* method, std::string_view path, std::string_view body, const char* content_type) {
    Answer answer;
    const std::string target = url(path);
    curl_easy_reset(curl); // keeps the connection
    curl_slist* all = curl_slist_append(nullptr, fmt::format("Content-Type: {}", content_type).c_str());
    for (const curl_slist* line = headers; line; line = line->next) all = curl_slist_append(all, line->data);
    curl_easy_setopt(curl, CURLOPT_URL, target.c_str());
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, all);
    if (std::string_view(method) != "GET") {
      curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
      curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
    }
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(timeout.count()));
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                     static_cast<long>(timeout.count()) + static_cast<long>(body.size()) / kSlowestBytesPerMs);
    const CURLcode code = curl_easy_perform(curl);
    curl_slist_free_all(all);
    if (code != CURLE_OK) return unreachable(target, code);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
    return answer;
  }

  [[nodiscard]] tl::unexpected<Error> unreachable(const std::string& target, CURLcode code) const {
    return fail(ErrorCode::kAgentUnreachable,
                fmt::format("no answer from the agent of {} at {}: {}", name, address, curl_easy_strerror(code)), target,
                next_step());
  }

  [[nodiscard]] std::string next_step() const {
    return log_hint.empty()
               ? fmt::format("see whether its duck-agent runs, and its log, log/{}.log in the flock's state folder", name)
               : "see whether its duck-agent runs, and its log, " + log_hint;
  }

  [[nodiscard]] tl::unexpected<Error> refused(const std::string& target, const Answer& answer) const {
    const auto error = parse_error(answer.body);
    if (!error)
      return fail(ErrorCode::kAgentRefused, fmt::format("{} answered HTTP {}, and not as an agent does", name, answer.status),
                  target, "see which program listens on " + address);
    return fail(error->code, fmt::format("the agent of {} refused: {}", name, error->message),
                error->place.empty() ? target : error->place,
                error->next.empty()
                    ? "see its log, " +
                          (log_hint.empty() ? fmt::format("log/{}.log in the flock's state folder", name) : log_hint)
                    : error->next);
  }

  Expected<std::string> call(const char* method, std::string_view path, std::string_view body = {},
                             const char* content_type = "application/json") {
    auto answer = exchange(method, path, body, content_type);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->status < 200 || answer->status > 299) return refused(url(path), *answer);
    return std::move(answer->body);
  }

  Expected<void> command(const char* method, std::string_view path, std::string_view body,
                         const char* content_type = "application/json") {
    return call(method, path, body, content_type).map([](const std::string&) {});
  }

  // GET and parse; a body that does not parse is the agent's fault and named as such.
  template <class T, class Parse> Expected<T> get(std::string_view path, const Parse& parse) {
    const auto text = call("GET", path);
    if (!text) return tl::unexpected(text.error());
    Expected<T> value = parse(*text);
    if (!value) {
      value.error().message = fmt::format("{}: {}", name, value.error().message);
      value.error().place = url(path);
      if (value.error().code == ErrorCode::kAgentVersion)
        value.error().next = "stop it (ductl down) and start it again with this program's version";
    }
    return value;
  }

  std::string name, address, log_hint;
  std::chrono::milliseconds timeout;
  CURL* curl = nullptr;
  curl_slist* headers = nullptr;
};

ControlClient::ControlClient(std::string duck_name, Endpoint control, std::string flock_key, std::chrono::milliseconds timeout,
                             std::string log_hint)
    : impl_(std::make_unique<Impl>(std::move(duck_name), control, std::move(flock_key), timeout, std::move(log_hint))) {}
ControlClient::~ControlClient() = default;
ControlClient::ControlClient(ControlClient&&) noexcept = default;
ControlClient& ControlClient::operator=(ControlClient&&) noexcept = default;

Expected<Hello> ControlClient::hello_of_any() { return impl_->get<Hello>("/v1/hello", parse_hello); }

Expected<Hello> ControlClient::hello() {
  auto hello = hello_of_any();
  if (hello && hello->adopted && hello->name != impl_->name)
    return fail(ErrorCode::kAgentRefused,
                fmt::format("the agent at {} is {} of flock {}, not {}", impl_->address, hello->name, hello->flock, impl_->name),
                impl_->url("/v1/hello"), "stop that agent, or give this flock other addresses or ports");
  return hello;
}

Expected<Health> ControlClient::health(std::int64_t time_ms) {
  return impl_->get<Health>(fmt::format("/v1/health?time_ms={}", time_ms), parse_health);
}

Expected<void> ControlClient::adopt(const Adoption& adoption) {
  return impl_->command("POST", "/v1/adopt", adoption_text(adoption));
}

Expected<AgentStats> ControlClient::stats() { return impl_->get<AgentStats>("/v1/stats", parse_stats); }

Expected<void> ControlClient::set_model(const StoreModel& model) { return impl_->command("PUT", "/v1/model", model_text(model)); }

Expected<std::vector<weights::SliceDigest>> ControlClient::layer_digests() {
  return impl_->get<std::vector<weights::SliceDigest>>("/v1/digests", parse_digests);
}

Expected<std::vector<weights::HeldSlice>> ControlClient::list(int layer) {
  return impl_->get<std::vector<weights::HeldSlice>>(fmt::format("/v1/slices/{}", layer),
                                                     [layer](std::string_view text) { return parse_held(text, layer); });
}

Expected<void> ControlClient::put(std::span<const OutgoingSlice> slices) {
  return impl_->command("PUT", "/v1/slices", slice_frames(slices), "application/octet-stream");
}

Expected<void> ControlClient::drop(std::span<const weights::SliceId> ids) {
  return impl_->command("POST", "/v1/slices/drop", ids_text(ids));
}

Expected<void> ControlClient::activate(std::uint32_t epoch, std::span<const weights::SliceId> ids) {
  return impl_->command("POST", "/v1/epoch", epoch_text(epoch, ids));
}

Expected<void> ControlClient::start_session(const SessionMessage& session) {
  return impl_->command("POST", "/v1/session", session_text(session));
}

Expected<void> ControlClient::power_off() { return impl_->command("POST", "/v1/power-off", ""); }

Expected<void> ControlClient::reboot() { return impl_->command("POST", "/v1/reboot", ""); }

Expected<std::string> ControlClient::log_tail(std::size_t bytes_max) {
  return impl_->call("GET", fmt::format("/v1/log?bytes={}", bytes_max));
}

} // namespace ductl::agent
