#include "netboot/file_answer.hpp"

#include "netboot/http/byte_range.hpp"

#include <fmt/format.h>

namespace ductl::netboot {
namespace {

FileAnswer refusal(int status, std::string_view message, const http::AnswerForm& form, http::Headers extra = {}) {
  const std::string body = http::error_body(status, message);
  FileAnswer answer;
  answer.status = status;
  answer.keep_alive = form.keep_alive;
  answer.bytes = http::head_text(status, form, "application/json", extra, body.size());
  if (!form.head_only) answer.bytes += body;
  return answer;
}

// A range of a file that has changed since is no use; then the whole file is sent (RFC 9110 section 13.1.5).
std::string_view wanted_range(const http::Request& request, const http::AnswerForm& form, const std::string& tag) {
  if (form.head_only) return {};
  const std::string_view condition = request.header("if-range");
  return condition.empty() || condition == tag ? request.header("range") : std::string_view();
}

} // namespace

FileAnswer answer_file_request(const http::Request& request, const http::AnswerForm& form, const BootFiles& files) {
  if (request.method != "GET") return refusal(405, "boot files are only read", form, {{"Allow", "GET, HEAD"}});
  const std::string name = request.path.substr(1); // a path begins with '/'
  const auto file = files.find(name);
  if (!file) return refusal(404, "no such boot file", form);
  const std::uint64_t size = file->bytes().size();
  const std::string tag = fmt::format("\"{}\"", file->sha256());
  const http::ByteRange range = http::parse_byte_range(wanted_range(request, form, tag), size);
  if (range.kind == http::ByteRange::Kind::Unsatisfiable)
    return refusal(416, "no such range", form, {{"Content-Range", fmt::format("bytes */{}", size)}});

  http::Headers extra{{"Accept-Ranges", "bytes"}, {"ETag", tag}};
  FileAnswer answer;
  if (range.kind == http::ByteRange::Kind::Part) {
    answer.status = 206;
    extra.emplace_back("Content-Range", fmt::format("bytes {}-{}/{}", range.offset, range.offset + range.length - 1, size));
  }
  answer.bytes = http::head_text(answer.status, form, content_type(name), extra, range.length);
  answer.keep_alive = form.keep_alive;
  answer.name = name;
  if (!form.head_only) {
    answer.file = file;
    answer.offset = range.offset;
    answer.length = range.length;
  }
  return answer;
}

} // namespace ductl::netboot
