// The head of a request without a body, from bytes to a Request. For servers that answer GET and HEAD only; what HeadScan
// has found complete goes in. Pure.
#pragma once

#include "netboot/http/answer_head.hpp"

#include <string_view>
#include <tl/expected.hpp>

namespace ductl::http {

struct RequestHead {
  Request request; // no peer, no body; a HEAD's method is "GET"
  AnswerForm form;
};

// The status of a refusal where it is no HTTP/1.0 or 1.1, malformed, or announces a body.
[[nodiscard]] tl::expected<RequestHead, int> parse_request_head(std::string_view head);

} // namespace ductl::http
