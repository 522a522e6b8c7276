#include "netboot/http/request_head.hpp"

#include "netboot/http/request_target.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <cctype>

namespace ductl::http {
namespace {

namespace beast = boost::beast;
using Parser = beast::http::request_parser<beast::http::empty_body>;

bool has_body(const Parser& parser) {
  const auto length = parser.content_length();
  return parser.chunked() || (length && *length != 0) || parser.get().count(beast::http::field::transfer_encoding) != 0;
}

void add_headers(const Parser& parser, Request& request) {
  for (const auto& field : parser.get()) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string& value = request.headers[name];
    value += (value.empty() ? "" : ", ") + std::string(field.value());
  }
}

} // namespace

tl::expected<RequestHead, int> parse_request_head(std::string_view head) {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(head.size() + 1));
  boost::system::error_code ec;
  parser.put(boost::asio::buffer(head.data(), head.size()), ec);
  if (parser.is_header_done() && has_body(parser)) return tl::unexpected(413);
  if (ec || !parser.is_header_done()) return tl::unexpected(400);
  const auto& message = parser.get();
  if (message.version() != 10 && message.version() != 11) return tl::unexpected(505);
  if (message.version() == 11 && message.count(beast::http::field::host) != 1) return tl::unexpected(400);
  const auto target = parse_request_target({message.target().data(), message.target().size()});
  if (!target) return tl::unexpected(400);
  RequestHead out;
  out.form = {message.version(), parser.keep_alive(), message.method() == beast::http::verb::head};
  out.request.method = out.form.head_only ? "GET" : std::string(message.method_string());
  out.request.path = target->path;
  out.request.query = target->query;
  add_headers(parser, out.request);
  return out;
}

} // namespace ductl::http
