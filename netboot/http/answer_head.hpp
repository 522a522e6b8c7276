// The head of an answer as bytes, and the server's own answers.
#pragma once

#include "netboot/http/http_server.hpp"

namespace ductl::http {

// What a request asks of its answer's form.
struct AnswerForm {
  unsigned version = 11; // 10 or 11
  bool keep_alive = true;
  bool head_only = false; // HEAD: no body is sent
};

// Without a length the body is chunked (HTTP/1.1) or ends with the connection (1.0).
[[nodiscard]] std::string head_text(int status, const AnswerForm& form, std::string_view content_type, const Headers& extra,
                                    std::optional<std::size_t> length);
[[nodiscard]] std::string error_body(int status, std::string_view message); // messages are ours: plain ASCII without quotes
// A whole answer of the server's own, with the end of the connection.
[[nodiscard]] std::string refusal_text(int status, std::string_view message, const Headers& extra = {});

} // namespace ductl::http
