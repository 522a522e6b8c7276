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
  bool over = false;            // the reader needs no more
  Instant heard = Clock::now(); // the last time that bytes came
};

enum class End { Done, Stopped, Silent };

long status_of(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

// Called by curl, in C: nothing may be thrown through it.
std::size_t on_bytes(char* bytes, std::size_t, std::size_t count, void* user) noexcept {
  Transfer& transfer = *static_cast<Transfer*>(user);
  const std::string_view text(bytes, count);
  transfer.heard = Clock::now();
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

Error silent(const EngineAddress& engine, Duration silence) {
  return {ErrorCode::kEngineUnreachable,
          fmt::format("nothing has come from {} for {} s: the engine hangs, or another program has its port", engine.url,
                      std::chrono::round<std::chrono::seconds>(silence).count()),
          engine.log_file,
          "`ductl status` tells whether it still runs; `ductl up` starts one that does not answer anew",
          {}};
}

// Runs the transfer until it is done (then `result` is curl's), the user stops it, or nothing comes any more.
End perform(CURLM* multi, const Transfer& transfer, const std::function<bool()>& stop, Duration silence_max, CURLcode& result) {
  for (int running = 1; running > 0;) {
    result = CURLE_FAILED_INIT;
    if (curl_multi_perform(multi, &running) != CURLM_OK) return End::Done;
    result = CURLE_OK;
    if (transfer.over) return End::Done;
    if (stop()) return End::Stopped;
    if (running > 0 && Clock::now() - transfer.heard > silence_max) return End::Silent;
    if (running > 0) curl_multi_poll(multi, nullptr, 0, kPollMs, nullptr);
  }
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi, &left);
  if (message != nullptr && message->msg == CURLMSG_DONE) result = message->data.result;
  return End::Done;
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
                            const std::function<void(std::string_view)>& on_text, const std::function<bool()>& stop,
                            Duration silence_max) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  const EasyPtr easy(curl_easy_init());
  const MultiPtr multi(curl_multi_init());
  if (initialised != CURLE_OK || !easy || !multi) return fail(ErrorCode::kInternal, "libcurl cannot be initialised");
  Transfer transfer{.reader = AnswerReader(on_text), .error_body = {}, .easy = easy.get()};
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
  CURLcode result = CURLE_OK;
  const End end = perform(multi.get(), transfer, stop, silence_max, result);
  const long status = status_of(easy.get());
  curl_multi_remove_handle(multi.get(), easy.get());

  if (end == End::Silent) return tl::unexpected(silent(engine, silence_max));
  if (end == End::Stopped) {
    Answer answer = transfer.reader.so_far();
    answer.stopped = true;
    return answer;
  }
  if (status == 0 && result != CURLE_OK) return tl::unexpected(unreachable(engine, result));
  constexpr long kOk = 200;
  auto answer =
      status == kOk ? transfer.reader.finish() : Expected<Answer>(tl::unexpected(error_of_body(status, transfer.error_body)));
  if (!answer && answer.error().place.empty()) answer.error().place = engine.log_file;
  return answer;
}

} // namespace ductl::commands
