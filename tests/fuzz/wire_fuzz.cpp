// Frames of any kind into every place that takes frames from the network. The input is a list of commands: most build a frame
// with a right checksum (a fuzzer would never find one) around fields and payload of its choice, some pass raw bytes.
#include "agent/wire/duck_round.hpp"
#include "agent/wire/request.hpp"
#include "engine/moe/round.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using namespace ductl; // NOLINT: a program of its own
constexpr int kHidden = 64;
constexpr std::size_t kMtu = wire::kHeaderBytes + 128;

class Input {
public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  [[nodiscard]] bool empty() const { return at_ >= size_; }
  std::uint8_t byte() { return empty() ? std::uint8_t{0} : data_[at_++]; }
  std::uint16_t word() { return static_cast<std::uint16_t>(byte() | byte() << 8); }
  std::vector<std::byte> bytes(std::size_t count) {
    std::vector<std::byte> out;
    while (out.size() < count && !empty()) out.push_back(static_cast<std::byte>(byte()));
    return out;
  }

private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

// A frame as a peer of this session might send it, right or wrong.
std::vector<std::byte> build(Input& in) {
  wire::Header h{.kind = static_cast<wire::Kind>(in.byte() % 8),
                 .lane = 0,
                 .rung = static_cast<std::uint8_t>(in.byte() % 4),
                 .session_tag = 1,
                 .epoch = 1,
                 .round = in.byte() % 8u,
                 .layer = static_cast<std::uint16_t>(in.byte() % 2),
                 .duck = static_cast<std::uint16_t>(in.byte() % 3),
                 .fragment = in.byte(),
                 .count = in.byte(),
                 .offset = static_cast<std::uint32_t>(in.byte() * 32),
                 .message_length = in.word(),
                 .code = static_cast<std::uint16_t>(in.byte() % 7)};
  const auto payload = in.bytes(in.byte());
  h.length = static_cast<std::uint32_t>(payload.size());
  std::vector<std::byte> frame(wire::kHeaderBytes);
  wire::encode_header(h, payload, std::span(frame).first<wire::kHeaderBytes>());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

void check(bool sound) {
  if (!sound) std::abort();
}

void answer(wire::DuckRound& duck, Instant now) {
  const auto lane = duck.next_ready();
  if (!lane) return;
  const wire::ReadyRequest request = duck.take(*lane);
  const auto view = wire::RequestView::parse(request.message);
  if (!view || view->shape().hidden != kHidden || view->shape().tokens > request.reply->tokens_max()) {
    duck.refuse(*lane, request.round, wire::RefusalCode::Malformed);
    return;
  }
  std::vector<float> x(kHidden);
  for (int t = 0; t < view->shape().tokens; ++t) view->hidden_state(t, x);
  for (int c = 0; c < view->shape().choices; ++c) check(view->choice(c).expert <= 0xffff);
  request.reply->clear(view->shape().tokens);
  request.reply->finish(1, static_cast<std::uint32_t>(view->shape().tokens % 2));
  duck.complete(*lane, request.round, now);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  Instant now(std::chrono::hours(1));
  static wire::DuckRound duck;
  const bool compact = in.byte() % 2 != 0;
  duck.begin_session(
      {.tag = 1, .epoch = 1, .duck = 1, .compact_reply = compact, .hidden = kHidden, .tokens_max = 4, .mtu = kMtu});
  engine::HostRound host({.ducks = {{.name = "a", .port_index = 0, .data = {}},
                                    {.name = "b", .port_index = 0, .data = {}},
                                    {.name = "c", .port_index = 0, .data = {}}},
                          .lane = 0,
                          .session_tag = 1,
                          .epoch = 1,
                          .hidden = kHidden,
                          .tokens_max = 2,
                          .compact_reply = compact,
                          .mtu = kMtu});
  const std::vector<float> x(2 * kHidden, 1.0f);
  const engine::ExpertChoice choice{.expert = 0, .weight = 1};
  const std::vector<std::span<const engine::ExpertChoice>> choices(2, {&choice, 1});
  const std::int16_t exponent[] = {4};
  host.start({.layer = 0, .lane = 0, .tokens = 2, .x = x, .experts = choices}, exponent, now);
  std::vector<float> y(x.size());

  while (!in.empty()) {
    const std::uint8_t command = in.byte();
    const auto frame = command % 8 == 0 ? in.bytes(in.byte()) : build(in);
    now += std::chrono::microseconds(command * 100);
    duck.feed({.address = 1, .port = 1}, frame, now);
    answer(duck, now);
    const auto decoded = wire::decode_frame(frame);
    if (decoded && decoded->header.lane == 0 && decoded->header.duck < 3) host.feed(*decoded, now);
    host.tick(now);
    const auto said = duck.frames();
    for (const auto& f : said) check(f.head.size() + f.body.size() <= kMtu);
    duck.sent(said.size());
    const auto asked = host.frames(0);
    host.sent(0, asked.size(), now);
    if (host.finished()) {
      (void)host.finish(y, now);
      host.start({.layer = 0, .lane = 0, .tokens = 2, .x = x, .experts = choices}, exponent, now);
    }
  }
  return 0;
}
