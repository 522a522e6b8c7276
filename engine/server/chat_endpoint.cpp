#include "engine/server/chat_endpoint.hpp"

#include "engine/server/chat_reply.hpp"
#include "engine/server/chat_request.hpp"
#include "engine/server/generation_task.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>

namespace ductl::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50}; // how often the peer is looked at while there is nothing to send

std::uint64_t random_bits() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// Everything that can be said before a token is computed.
Expected<GenerateRequest> to_generate_request(const Generator& generator, const ChatRequest& chat) {
  auto prompt = generator.chat_format().render(chat.messages);
  if (!prompt) return tl::unexpected(prompt.error());
  const auto fits = output_budget(generator.context(), static_cast<int>(prompt->size()), chat.output_tokens_max);
  if (!fits) return tl::unexpected(fits.error());
  GenerateRequest out;
  out.prompt = std::move(*prompt);
  out.sampling = chat.sampling;
  out.sampling.seed = chat.seed.value_or(random_bits());
  out.output_tokens_max = chat.output_tokens_max;
  out.stop = chat.stop;
  out.stop_tokens = generator.chat_format().stop_tokens();
  out.token_times = chat.token_times;
  return out;
}

// One answer on its way: the connection's thread, between the task and the peer.
class Answer {
public:
  Answer(ApiState& state, const ChatReply& reply, bool stream, std::chrono::milliseconds ping_interval, GenerationTask& task,
         http::Response& response)
      : state_(state), reply_(reply), stream_(stream), ping_interval_(ping_interval), task_(task), response_(response) {}

  // True once the answer has ended and is counted; false when the peer went away before.
  bool run() {
    last_write_ = Clock::now();
    for (;;) {
      const GenerationTask::News news = task_.wait(std::min(kLook, ping_interval_));
      if (response_.peer_gone()) return false; // or the server stops; the task's destructor cancels and waits
      if (stream_ && !news.text.empty()) write(reply_.text_event(news.text));
      if (news.done) {
        end();
        return true;
      }
      if (stream_ && Clock::now() - last_write_ >= ping_interval_) write(ChatReply::ping());
    }
  }

private:
  // The status line waits for the first news, so that what fails at once fails with its own status.
  void write(const std::string& event) {
    if (!begun_) {
      begun_ = true;
      response_.begin_stream(200, "text/event-stream; charset=utf-8",
                             {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
      response_.write(reply_.role_event());
    }
    response_.write(event); // whether the peer is still there is asked in run()
    last_write_ = Clock::now();
  }

  // Counted before the last bytes leave: who has the whole answer finds it in /v1/stats.
  void end() {
    const Expected<GenerateResult>& result = task_.result();
    if (!result) {
      const ApiError error = to_api_error(result.error());
      state_.leave(ApiState::Outcome::Failed, nullptr);
      begun_ ? write(ChatReply::error_event(error)) : send_error(response_, error);
      return;
    }
    state_.leave(ApiState::Outcome::Answered, &result->stats);
    if (!stream_) {
      response_.send(200, "application/json", reply_.whole(*result));
    } else {
      write(reply_.finish_event(*result) + reply_.usage_event(*result) + ChatReply::done_event());
    }
  }

  ApiState& state_;
  const ChatReply& reply_;
  bool stream_, begun_ = false;
  std::chrono::milliseconds ping_interval_;
  GenerationTask& task_;
  http::Response& response_;
  Clock::time_point last_write_;
};

} // namespace

void send_error(http::Response& response, const ApiError& error) {
  http::Headers headers;
  if (error.status == 429) headers.emplace_back("Retry-After", "1");
  if (error.status == 503) headers.emplace_back("Retry-After", "5");
  if (error.status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  response.send(error.status, "application/json", error.json().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                headers);
}

void ChatEndpoint::answer(Generator& generator, const http::Request& request, http::Response& response) {
  const Expected<ChatRequest> chat = parse_chat_request(request.body);
  if (!chat) return send_error(response, to_api_error(chat.error()));
  if (!chat->model.empty() && chat->model != generator.model_name()) {
    return send_error(response,
                      api_error(404, "model_not_found",
                                fmt::format("the model \"{}\" is not served here; this is \"{}\" (leave model out for it)",
                                            chat->model, generator.model_name()),
                                "model"));
  }
  if (const std::optional<Error> broken = generator.broken()) return send_error(response, to_api_error(*broken));
  Expected<GenerateRequest> wanted = to_generate_request(generator, *chat);
  if (!wanted) return send_error(response, to_api_error(wanted.error()));
  if (!state_.enter(generations_max_)) {
    return send_error(
        response, api_error(429, "queue_full", fmt::format("{} requests are running or waiting; try again", generations_max_)));
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const ChatReply reply(*chat, generator.model_name(), fmt::format("chatcmpl-{:016x}", random_bits()),
                        std::chrono::duration_cast<std::chrono::seconds>(now).count());
  bool ended = false;
  {
    GenerationTask task(generator, std::move(*wanted));
    ended = Answer(state_, reply, chat->stream, ping_interval_, task, response).run();
  }
  if (!ended) state_.leave(ApiState::Outcome::Cancelled, nullptr); // only now has the work stopped
}

} // namespace ductl::engine
