// Everything that the control plane parses from bytes of others: the first byte chooses which, and what is accepted must
// come back unchanged when it is written and read again.
#include "agent/client/adopt_message.hpp"
#include "agent/client/announcement.hpp"
#include "agent/client/control_messages.hpp"
#include "agent/client/health_message.hpp"
#include "agent/client/slice_frames.hpp"
#include "netboot/http/head_scan.hpp"
#include "netboot/http/request_target.hpp"

#include <cstdlib>
#include <string_view>

namespace {

using namespace ductl::agent;

void require(bool holds) {
  if (!holds) std::abort();
}

void fuzz_frames(std::string_view text) {
  constexpr std::size_t kSliceBytes = 64;
  const auto slices = parse_slice_frames(std::as_bytes(std::span(text)), kSliceBytes);
  if (slices) require(slice_frames(*slices) == text);
}

void fuzz_requests(std::string_view text) {
  if (const auto model = parse_model(text)) require(*parse_model(model_text(*model)) == *model);
  if (const auto ids = parse_ids(text)) require(*parse_ids(ids_text(*ids)) == *ids);
  if (const auto epoch = parse_epoch(text)) require(parse_epoch(epoch_text(epoch->epoch, epoch->ids))->ids == epoch->ids);
  if (const auto session = parse_session(text)) require(parse_session(session_text(*session))->tag == session->tag);
}

void fuzz_answers(std::string_view text) {
  // Names in answers may hold bytes that are no UTF-8 only if JSON let them through, which it does not.
  if (const auto hello = parse_hello(text)) require(parse_hello(hello_text(*hello))->name == hello->name);
  if (const auto stats = parse_stats(text)) require(parse_stats(stats_text(*stats))->rounds == stats->rounds);
  if (const auto digests = parse_digests(text)) require(*parse_digests(digests_text(*digests)) == *digests);
  if (const auto held = parse_held(text, 1)) require(parse_held(held_text(*held), 1)->size() == held->size());
  if (const auto error = parse_error(text)) require(parse_error(error_text(*error))->message == error->message);
}

// What a netbooted duck says and is told; announcements come from anybody.
void fuzz_duck(std::string_view text) {
  if (const auto health = parse_health(text)) require(*parse_health(health_text(*health)) == *health);
  if (const auto adoption = parse_adoption(text)) require(*parse_adoption(adoption_text(*adoption)) == *adoption);
  if (const auto heard = parse_announcement(text)) {
    const std::string again = announcement_text(*heard);
    require(again.size() <= kAnnouncementBytesMax && parse_announcement(again)->mac == heard->mac);
  }
}

void fuzz_http(std::string_view text) {
  using ductl::http::HeadScan;
  HeadScan whole, split;
  const auto state = whole.scan(text);
  auto last = HeadScan::State::Incomplete;
  for (std::size_t cut = 1; cut <= text.size() && last == HeadScan::State::Incomplete; ++cut)
    last = split.scan(text.substr(0, cut));
  require(last == state && split.head_bytes() == whole.head_bytes());
  if (const auto target = ductl::http::parse_request_target(text)) require(target->path.find('\0') == std::string::npos);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
  case 0: fuzz_frames(text); break;
  case 1: fuzz_requests(text); break;
  case 2: fuzz_answers(text); break;
  case 4: fuzz_duck(text); break;
  default: fuzz_http(text); break;
  }
  return 0;
}
