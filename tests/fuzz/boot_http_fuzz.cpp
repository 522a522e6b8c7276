// Any head of a request for a boot file: refused, or answered within the file.
#include "netboot/file_answer.hpp"
#include "netboot/http/head_scan.hpp"
#include "netboot/http/request_head.hpp"
#include "netboot/ipv4_udp.hpp"
#include "netboot/router/advertisement.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using namespace ductl; // NOLINT: a program of its own

void check(bool sound) {
  if (!sound) std::abort();
}

const netboot::BootFiles& files() {
  static const netboot::BootFiles all = [] {
    netboot::BootFiles some;
    some.add("f", netboot::BootFile::from_bytes(netboot::bytes_of("0123456789")).value());
    return some;
  }();
  return all;
}

void answer(const http::RequestHead& head) {
  const netboot::FileAnswer answer = netboot::answer_file_request(head.request, head.form, files());
  check(answer.bytes.starts_with("HTTP/1."));
  check(answer.offset + answer.length <= 10);
  check(!head.form.head_only || !answer.file);
  check((answer.status == 206) <= (answer.length > 0));
}

} // namespace

// The first byte says what the rest is: a whole head, the value of Range, or a packet of the wire.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const netboot::ByteView bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::string_view text = netboot::text_of(bytes);
  if (data[0] % 3 == 0) {
    http::HeadScan scan;
    if (scan.scan(text) != http::HeadScan::State::Complete) return 0;
    const auto head = http::parse_request_head(text.substr(0, scan.head_bytes()));
    if (head) answer(*head);
  } else if (data[0] % 3 == 1) {
    http::RequestHead head;
    head.request.method = "GET";
    head.request.path = "/f";
    head.request.headers["range"] = text;
    answer(head);
  } else {
    (void)netboot::is_router_solicitation(bytes);
    const auto datagram = netboot::read_ipv4_udp(bytes);
    check(!datagram || datagram->payload.size() + 28 <= bytes.size());
  }
  return 0;
}
