#include "ductl/reconcile/engine_probe.hpp"

#include <curl/curl.h>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

namespace ductl::reconcile {
namespace {

constexpr std::size_t kReplyMax = 1024 * 1024;
constexpr const char* kOneToken = R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":1,"temperature":0})";

struct Reply {
  long status = 0; // 0 = no answer
  std::string body = {}, trouble = {};
  bool interrupted = false;
};

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& body = *static_cast<std::string*>(user);
  if (body.size() + size * count > kReplyMax) return 0;
  body.append(data, size * count);
  return size * count;
}

int look_for_interruption(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<const std::function<bool()>*>(user))() ? 1 : 0;
}

Reply ask(inventory::Ipv4 address, std::uint16_t port, const char* path, const char* post, const std::string& key,
          std::chrono::milliseconds limit, const std::function<bool()>& interrupted) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) return {.trouble = "no memory"};
  // An API bound to every address answers on loopback.
  const std::string url = fmt::format("http://{}:{}{}", address == 0 ? "127.0.0.1" : inventory::to_string(address), port, path);
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all);
  if (!key.empty()) headers.reset(curl_slist_append(headers.release(), ("Authorization: Bearer " + key).c_str()));
  Reply reply;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &reply.body);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, look_for_interruption);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, &interrupted);
  if (post) {
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, post);
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  }
  const CURLcode code = curl_easy_perform(curl.get());
  reply.interrupted = code == CURLE_ABORTED_BY_CALLBACK;
  if (code != CURLE_OK) {
    reply.trouble = fmt::format("{}: {}", url, curl_easy_strerror(code));
    return reply;
  }
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &reply.status);
  return reply;
}

// {"error":{"message":...}} in the engine's own words.
std::string reason_of(const Reply& reply) {
  const nlohmann::json json = nlohmann::json::parse(reply.body, nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_object()) {
    const nlohmann::json& error = json["error"];
    if (error.contains("message") && error["message"].is_string()) return error["message"].get<std::string>();
  }
  return fmt::format("HTTP status {}", reply.status);
}

} // namespace

EngineHealth engine_health(inventory::Ipv4 address, std::uint16_t port, std::chrono::milliseconds limit) {
  const Reply reply = ask(address, port, "/health", nullptr, {}, limit, [] { return false; });
  if (reply.status == 0) return {.reason = reply.trouble};
  if (reply.status == 200) return {.healthy = true};
  return {.reason = reason_of(reply)};
}

Expected<void> ask_one_token(inventory::Ipv4 address, std::uint16_t port, const std::string& key, std::chrono::milliseconds limit,
                             const std::function<bool()>& interrupted) {
  const Reply reply = ask(address, port, "/v1/chat/completions", kOneToken, key, limit, interrupted);
  if (reply.interrupted)
    return fail(ErrorCode::kCancelled, "interrupted before the first token came", {}, "the flock is up; ask it with ductl run");
  if (reply.status == 200) return {};
  return fail(ErrorCode::kEngineStart, "the engine gives no token: " + (reply.status == 0 ? reply.trouble : reason_of(reply)), {},
              "read the engine's log");
}

} // namespace ductl::reconcile
