#include "netboot/http/answer.hpp"

#include <fmt/format.h>

namespace ductl::http {
namespace {

// RFC 9112, 7.1; an empty one would be the last.
std::string chunk_text(std::string_view data) { return fmt::format("{:x}\r\n{}\r\n", data.size(), data); }
constexpr std::string_view kLastChunk = "0\r\n\r\n";

} // namespace

void Answer::put(std::string text) {
  outbox_.put(std::move(text));
  kick_();
}

void Answer::send(int status, std::string_view content_type, std::string body, const Headers& extra) {
  if (begun_) return;
  begun_ = whole_ = true;
  outbox_.put(head_text(status, form_, content_type, extra, body.size()));
  if (!form_.head_only) outbox_.put(std::move(body));
  kick_();
}

void Answer::begin_stream(int status, std::string_view content_type, const Headers& extra) {
  if (begun_) return;
  begun_ = streaming_ = true;
  AnswerForm form = form_;
  form.keep_alive = form.keep_alive && form.version >= 11;
  put(head_text(status, form, content_type, extra, std::nullopt));
}

bool Answer::write(std::string_view chunk) {
  if (!streaming_ || form_.head_only) return false;
  if (chunk.empty()) return !outbox_.gone();
  if (!outbox_.put_when_room(form_.version >= 11 ? chunk_text(chunk) : std::string(chunk))) return false;
  kick_();
  return true;
}

bool Answer::finish(bool failed) {
  if (!begun_) send(500, "application/json", error_body(500, "the request could not be answered"), {});
  if (!streaming_) return whole_;
  if (failed || form_.version < 11) return false; // cut short: the peer sees that the last chunk is missing
  if (!form_.head_only) put(std::string(kLastChunk));
  return true;
}

} // namespace ductl::http
