#include "agent/wire/request.hpp"

#include "agent/wire/bytes.hpp"
#include "agent/wire/header.hpp"

#include <cstring>

namespace ductl::wire {
namespace {

constexpr std::size_t kTokensAt = 0, kTypeAt = 2, kHiddenAt = 4, kChoicesAt = 8, kCountsAt = 16;
constexpr std::size_t kChoiceBytes = 8;
constexpr std::uint8_t kTypeF32 = 0, kTypeBf16 = 1;

std::size_t choices_offset(int tokens) { return round_up(kCountsAt + 2 * static_cast<std::size_t>(tokens), 8); }

std::size_t vectors_offset(int tokens, int choices) {
  return round_up(choices_offset(tokens) + kChoiceBytes * static_cast<std::size_t>(choices), kPayloadAlignment);
}

std::size_t vector_bytes(int hidden, bool bf16) { return static_cast<std::size_t>(hidden) * (bf16 ? 2 : 4); }

} // namespace

std::size_t request_bytes(const RequestShape& shape) {
  return vectors_offset(shape.tokens, shape.choices) +
         static_cast<std::size_t>(shape.tokens) * vector_bytes(shape.hidden, shape.bf16);
}

std::size_t request_bytes_max(int tokens_max, int hidden, bool bf16) {
  return request_bytes({.tokens = tokens_max, .hidden = hidden, .choices = tokens_max * kChoicesMax, .bf16 = bf16});
}

RequestWriter::RequestWriter(std::span<std::byte> out, const RequestShape& shape) : out_(out), shape_(shape) {
  assert(out.size() == request_bytes(shape) && shape.tokens >= 1 && shape.tokens <= kTokensMax);
  std::memset(out.data(), 0, vectors_offset(shape.tokens, shape.choices));
  store(out, kTokensAt, static_cast<std::uint16_t>(shape.tokens));
  store(out, kTypeAt, shape.bf16 ? kTypeBf16 : kTypeF32);
  store(out, kHiddenAt, static_cast<std::uint32_t>(shape.hidden));
  store(out, kChoicesAt, static_cast<std::uint32_t>(shape.choices));
}

void RequestWriter::token(std::span<const float> x, int choices) {
  assert(tokens_ < shape_.tokens && x.size() == static_cast<std::size_t>(shape_.hidden) && choices <= kChoicesMax);
  store(out_, kCountsAt + 2 * static_cast<std::size_t>(tokens_), static_cast<std::uint16_t>(choices));
  const std::size_t at = vectors_offset(shape_.tokens, shape_.choices) +
                         static_cast<std::size_t>(tokens_) * vector_bytes(shape_.hidden, shape_.bf16);
  if (shape_.bf16) {
    for (std::size_t i = 0; i < x.size(); ++i) store(out_, at + 2 * i, to_bf16(x[i]));
  } else {
    std::memcpy(out_.data() + at, x.data(), x.size_bytes());
  }
  ++tokens_;
}

void RequestWriter::choice(int expert, float weight) {
  assert(choices_ < shape_.choices);
  const std::size_t at = choices_offset(shape_.tokens) + kChoiceBytes * static_cast<std::size_t>(choices_++);
  store(out_, at, static_cast<std::uint16_t>(expert));
  store(out_, at + 4, weight);
}

std::optional<RequestView> RequestView::parse(std::span<const std::byte> message) {
  if (message.size() < kCountsAt) return std::nullopt;
  const auto type = load<std::uint8_t>(message, kTypeAt);
  const auto hidden = load<std::uint32_t>(message, kHiddenAt);
  const auto choices = load<std::uint32_t>(message, kChoicesAt);
  RequestView view;
  view.bytes_ = message;
  view.shape_.tokens = load<std::uint16_t>(message, kTokensAt);
  if (view.shape_.tokens < 1 || view.shape_.tokens > kTokensMax || type > kTypeBf16) return std::nullopt;
  if (hidden == 0 || hidden > kHiddenMax || choices > static_cast<std::uint32_t>(view.shape_.tokens * kChoicesMax))
    return std::nullopt;
  view.shape_.hidden = static_cast<int>(hidden);
  view.shape_.choices = static_cast<int>(choices);
  view.shape_.bf16 = type == kTypeBf16;
  if (message.size() != request_bytes(view.shape_)) return std::nullopt;
  int sum = 0;
  for (int t = 0; t < view.shape_.tokens; ++t) {
    if (view.choices_of(t) > kChoicesMax) return std::nullopt;
    sum += view.choices_of(t);
  }
  if (sum != view.shape_.choices) return std::nullopt;
  return view;
}

int RequestView::choices_of(int token) const {
  return load<std::uint16_t>(bytes_, kCountsAt + 2 * static_cast<std::size_t>(token));
}

Choice RequestView::choice(int index) const {
  const std::size_t at = choices_offset(shape_.tokens) + kChoiceBytes * static_cast<std::size_t>(index);
  return {.expert = load<std::uint16_t>(bytes_, at), .weight = load<float>(bytes_, at + 4)};
}

void RequestView::hidden_state(int token, std::span<float> out) const {
  assert(out.size() == static_cast<std::size_t>(shape_.hidden));
  const std::size_t at =
      vectors_offset(shape_.tokens, shape_.choices) + static_cast<std::size_t>(token) * vector_bytes(shape_.hidden, shape_.bf16);
  if (shape_.bf16) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = from_bf16(load<std::uint16_t>(bytes_, at + 2 * i));
  } else {
    std::memcpy(out.data(), bytes_.data() + at, out.size_bytes());
  }
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float from_bf16(std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }

} // namespace ductl::wire
