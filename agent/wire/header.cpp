#include "agent/wire/header.hpp"

#include "agent/wire/bytes.hpp"
#include "agent/wire/fragments.hpp"

#include <algorithm>
#include <isa-l/crc.h>

namespace ductl::wire {
namespace {

// Where each field lies. The checksum is last, so that it can be left out of its own sum without a copy of the frame.
constexpr std::size_t kMagicAt = 0, kVersionAt = 4, kKindAt = 5, kLaneAt = 6, kRungAt = 7, kTagAt = 8, kEpochAt = 16,
                      kRoundAt = 20, kLayerAt = 24, kDuckAt = 26, kFragmentAt = 28, kCountAt = 30, kOffsetAt = 32, kLengthAt = 36,
                      kMessageLengthAt = 40, kCodeAt = 44, kReservedAt = 46, kCrcAt = 50;
static_assert(kCrcAt + sizeof(std::uint32_t) == kHeaderBytes);
static_assert(kTagAt % 8 == 0 && kEpochAt % 4 == 0 && kOffsetAt % 4 == 0);

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  // ISA-L takes a pointer to non-const but only reads.
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  return crc32_iscsi(data, static_cast<int>(bytes.size()), crc);
}

// CRC32C of header (checksum field as zero) and payload.
std::uint32_t checksum(std::span<const std::byte> header, std::span<const std::byte> payload) {
  constexpr std::array<std::byte, 4> kZero{};
  std::uint32_t crc = crc32c(header.first(kCrcAt), ~0u);
  crc = crc32c(kZero, crc);
  return ~crc32c(payload, crc);
}

bool control_frame_is_well_formed(const Header& h) {
  if (h.fragment != 0 || h.offset != 0 || h.message_length != h.length || h.count > kFragmentsMax) return false;
  if (h.kind == Kind::RequestNack || h.kind == Kind::ReplyNack) return h.length == bitmap_bytes(h.count);
  return h.length == 0 && h.count == 0;
}

bool is_well_formed(const Header& h) {
  if (h.lane >= kLanesMax || h.rung >= kRungsMax) return false;
  if ((h.kind == Kind::Refusal) != (h.code != 0)) return false;
  switch (h.kind) {
  case Kind::Request:
  case Kind::Reply: return tiling_of(h).has_value();
  case Kind::RequestNack:
  case Kind::ReplyNack:
  case Kind::Busy:
  case Kind::Refusal: return control_frame_is_well_formed(h);
  }
  return false;
}

} // namespace

void encode_header(const Header& header, std::span<const std::byte> payload, std::span<std::byte, kHeaderBytes> out) {
  assert(header.length == payload.size());
  store(out, kMagicAt, kMagic);
  store(out, kVersionAt, kVersion);
  store(out, kKindAt, static_cast<std::uint8_t>(header.kind));
  store(out, kLaneAt, header.lane);
  store(out, kRungAt, header.rung);
  store(out, kTagAt, header.session_tag);
  store(out, kEpochAt, header.epoch);
  store(out, kRoundAt, header.round);
  store(out, kLayerAt, header.layer);
  store(out, kDuckAt, header.duck);
  store(out, kFragmentAt, header.fragment);
  store(out, kCountAt, header.count);
  store(out, kOffsetAt, header.offset);
  store(out, kLengthAt, header.length);
  store(out, kMessageLengthAt, header.message_length);
  store(out, kCodeAt, header.code);
  store(out, kReservedAt, std::uint32_t{0});
  store(out, kCrcAt, checksum(out, payload));
}

tl::expected<Frame, Fault> decode_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return tl::unexpected(Fault::Short);
  const auto head = bytes.first(kHeaderBytes);
  const auto payload = bytes.subspan(kHeaderBytes);
  if (load<std::uint32_t>(head, kCrcAt) != checksum(head, payload)) return tl::unexpected(Fault::Corrupt);
  if (load<std::uint32_t>(head, kMagicAt) != kMagic) return tl::unexpected(Fault::Magic);
  if (load<std::uint8_t>(head, kVersionAt) != kVersion) return tl::unexpected(Fault::Version);
  Header h;
  h.kind = static_cast<Kind>(load<std::uint8_t>(head, kKindAt));
  h.lane = load<std::uint8_t>(head, kLaneAt);
  h.rung = load<std::uint8_t>(head, kRungAt);
  h.session_tag = load<std::uint64_t>(head, kTagAt);
  h.epoch = load<std::uint32_t>(head, kEpochAt);
  h.round = load<std::uint32_t>(head, kRoundAt);
  h.layer = load<std::uint16_t>(head, kLayerAt);
  h.duck = load<std::uint16_t>(head, kDuckAt);
  h.fragment = load<std::uint16_t>(head, kFragmentAt);
  h.count = load<std::uint16_t>(head, kCountAt);
  h.offset = load<std::uint32_t>(head, kOffsetAt);
  h.length = load<std::uint32_t>(head, kLengthAt);
  h.message_length = load<std::uint32_t>(head, kMessageLengthAt);
  h.code = load<std::uint16_t>(head, kCodeAt);
  if (load<std::uint32_t>(head, kReservedAt) != 0 || h.length != payload.size() || !is_well_formed(h)) {
    return tl::unexpected(Fault::Malformed);
  }
  return Frame{h, payload};
}

} // namespace ductl::wire
