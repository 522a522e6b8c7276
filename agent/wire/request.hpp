// The message host -> ducks: hidden states of a few tokens, and which experts each token chose. docs/wire.md.
//
//   u16 tokens | u8 type | u8 0 | u32 hidden | u32 choices | u32 0
//   u16 choices of token [tokens], padded to 8 | { u16 expert, u16 0, f32 weight } [choices], padded to 32
//   f32 or bf16 [tokens][hidden]
#pragma once

#include "weights/limits.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ductl::wire {

inline constexpr int kTokensMax = 64;                    // of one request
inline constexpr int kChoicesMax = weights::kChoicesMax; // of one token
inline constexpr int kHiddenMax = weights::kHiddenMax;

struct RequestShape {
  int tokens = 0, hidden = 0, choices = 0; // choices of all tokens together
  bool bf16 = false;
};
[[nodiscard]] std::size_t request_bytes(const RequestShape& shape);
// Room for any request of a session.
[[nodiscard]] std::size_t request_bytes_max(int tokens_max, int hidden, bool bf16);

// Writes a request in place: for each token in order, token() and then its choice()s.
class RequestWriter {
public:
  RequestWriter(std::span<std::byte> out, const RequestShape& shape); // out.size() == request_bytes(shape)
  void token(std::span<const float> x, int choices);
  void choice(int expert, float weight);

private:
  std::span<std::byte> out_;
  RequestShape shape_;
  int tokens_ = 0, choices_ = 0;
};

struct Choice {
  int expert = 0;
  float weight = 0;
};

// A request's bytes, checked: every length and count in it agrees with the message's length.
class RequestView {
public:
  [[nodiscard]] static std::optional<RequestView> parse(std::span<const std::byte> message);
  [[nodiscard]] const RequestShape& shape() const { return shape_; }
  [[nodiscard]] int choices_of(int token) const;
  [[nodiscard]] Choice choice(int index) const;             // running over all tokens
  void hidden_state(int token, std::span<float> out) const; // bf16 is widened exactly

private:
  std::span<const std::byte> bytes_;
  RequestShape shape_;
};

// Round to nearest, ties to even; NaN stays NaN.
[[nodiscard]] std::uint16_t to_bf16(float value);
[[nodiscard]] float from_bf16(std::uint16_t value);

} // namespace ductl::wire
