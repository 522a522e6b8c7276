#include "netboot/http/answer_head.hpp"

#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include <sstream>

namespace ductl::http {

namespace beast = boost::beast;

std::string error_body(int status, std::string_view message) {
  return fmt::format(R"({{"error":{{"code":"http_{}","type":"invalid_request_error","message":"{}"}}}})", status, message);
}

std::string head_text(int status, const AnswerForm& form, std::string_view content_type, const Headers& extra,
                      std::optional<std::size_t> length) {
  beast::http::response<beast::http::empty_body> head;
  head.result(static_cast<unsigned>(status));
  head.version(form.version);
  if (!content_type.empty())
    head.set(beast::http::field::content_type, beast::string_view(content_type.data(), content_type.size()));
  for (const auto& [name, value] : extra) head.insert(name, value);
  if (length) {
    head.content_length(*length);
  } else if (form.version >= 11) {
    head.chunked(true);
  }
  head.keep_alive(form.keep_alive);
  std::ostringstream text;
  text << head.base();
  return std::move(text).str();
}

std::string refusal_text(int status, std::string_view message, const Headers& extra) {
  const std::string body = error_body(status, message);
  return head_text(status, {.keep_alive = false}, "application/json", extra, body.size()) + body;
}

} // namespace ductl::http
