#include "ductl/commands/engine_client.hpp"

#include "agent/client/api_keys.hpp"
#include "agent/client/state_folder.hpp"

#include <algorithm>
#include <curl/curl.h>
#include <fmt/format.h>
#include <memory>

namespace ductl::commands {
namespace {

constexpr long kConnectTimeoutMs = 3000;
constexpr int kPollMs = 50; // how long Ctrl-C may wait
constexpr std::size_t kErrorBodyMax = 64 * 1024;

struct Transfer {
  AnswerReader reader;
  std::string error_body; // of an answer that is no stream
  CURL* easy = nullptr;
  bool over = false; // the reader needs no more
};

long status_of(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

// Called by curl, in C: nothing may be thrown through it.
std::size_t on_bytes(char* bytes, std::size_t, std::size_t count, void* user) noexcept {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const std::string_view text(bytes, count);
  constexpr long kOk = 200;
  if (status_of(transfer.easy) != kOk) {
    transfer.error_body.append(text.substr(0, kErrorBodyMax - std::min(kErrorBodyMax, transfer.error_body.size())));
    return count;
  }
  transfer.over = !transfer.reader.feed(text);
  return transfer.over ? 0 : count; // 0 ends the transfer
}

// CURL and CURLM are both void: each needs its own.
template <auto close> struct Closer {
  void operator()(auto* handle) const { close(handle); }
};
using EasyPtr = std::unique_ptr<CURL, Closer<curl_easy_cleanup>>;
using MultiPtr = std::unique_ptr<CURLM, Closer<curl_multi_cleanup>>;
using ListPtr = std::unique_ptr<curl_slist, Closer<curl_slist_free_all>>;

ListPtr headers_of(const EngineAddress& engine) {
  ListPtr list(curl_slist_append(nullptr, "Content-Type: application/json"));
  const auto add = [&](const std::string& header) { list.reset(curl_slist_append(list.release(), header.c_str())); };
  add("Accept: text/event-stream");
  add("Expect:"); // no 100-continue round trip
  if (!engine.key.empty()) add("Authorization: Bearer " + engine.key);
  return list;
}

Error unreachable(const EngineAddress& engine, CURLcode code) {
  const bool nobody = code == CURLE_COULDNT_CONNECT;
  return {ErrorCode::kEngineUnreachable,
          nobody ? fmt::format("no engine answers at {}", engine.url)
                 : fmt::format("the talk with the engine at {} failed: {}", engine.url, curl_easy_strerror(code)),
          engine.log_file,
          nobody ? "run `ductl up` to start the flock" : "`ductl status` tells whether it still runs",
          {}};
}

// Runs the transfer to its end. Nothing = the user stopped it.
std::optional<CURLcode> perform(CURLM* multi, const Transfer& transfer, const std::function<bool()>& stop) {
  for (int running = 1; running > 0;) {
    if (curl_multi_perform(multi, &running) != CURLM_OK) return CURLE_FAILED_INIT;
    if (transfer.over) return CURLE_OK;
    if (stop()) return std::nullopt;
    if (running > 0 && curl_multi_poll(multi, nullptr, 0, kPollMs, nullptr) != CURLM_OK) return CURLE_FAILED_INIT;
  }
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi, &left);
  return message != nullptr && message->msg == CURLMSG_DONE ? message->data.result : CURLE_OK;
}

} // namespace

std::string api_url(inventory::Ipv4 address, std::uint16_t port) {
  // Bound to every address of this machine means: also to its loopback.
  return fmt::format("http://{}:{}", inventory::to_string(address == 0 ? 0x7f000001 : address), port);
}

EngineAddress engine_address(const inventory::Flock& flock) {
  return {api_url(flock.engine.api_address, flock.engine.api_port), agent::state_folder(flock.name).log("duck-engine").string(),
          agent::own_api_key(agent::state_folder(flock.name).api_keys())};
}

Expected<Answer> ask_engine(const EngineAddress& engine, const ChatRequest& request,
                            const std::function<void(std::string_view)>& on_text, const std::function<bool()>& stop) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  const EasyPtr easy(curl_easy_init());
  const MultiPtr multi(curl_multi_init());
  if (initialised != CURLE_OK || !easy || !multi) return fail(ErrorCode::kInternal, "libcurl cannot be initialised");
  Transfer transfer{AnswerReader(on_text), {}, easy.get(), false};
  const std::string url = engine.url + "/v1/chat/completions", body = request_body(request);
  const ListPtr headers = headers_of(engine);
  curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_PROXY, ""); // the flock is at hand, whatever the environment says
  curl_easy_setopt(easy.get(), CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, on_bytes);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &transfer);
  curl_multi_add_handle(multi.get(), easy.get());
  const std::optional<CURLcode> result = perform(multi.get(), transfer, stop);
  const long status = status_of(easy.get());
  curl_multi_remove_handle(multi.get(), easy.get());

  if (!result) {
    Answer answer = transfer.reader.so_far();
    answer.stopped = true;
    return answer;
  }
  if (status == 0 && *result != CURLE_OK) return tl::unexpected(unreachable(engine, *result));
  constexpr long kOk = 200;
  auto answer =
      status == kOk ? transfer.reader.finish() : Expected<Answer>(tl::unexpected(error_of_body(status, transfer.error_body)));
  if (!answer && answer.error().place.empty()) answer.error().place = engine.log_file;
  return answer;
}

} // namespace ductl::commands
