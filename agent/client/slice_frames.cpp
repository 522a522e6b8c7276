#include "agent/client/slice_frames.hpp"

#include <fmt/format.h>

#include <cstring>

namespace ductl::agent {

namespace {

constexpr std::uint32_t kMagic = 0x31534c44; // "DLS1"
constexpr std::size_t kHeadBytes = 16;       // magic, count, bytes of a slice, zero
constexpr std::size_t kFrameHeadBytes = 16;  // layer, expert, index, zero; digest

// Little-endian on the wire, as everywhere in the house.
template <class T> void append(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

template <class T> T read(std::span<const std::byte> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(bytes[at + i]) << (8 * i)));
  return value;
}

tl::unexpected<Error> bad(std::string message) { return fail(ErrorCode::kAgentRefused, "body of slices: " + std::move(message)); }

} // namespace

std::string slice_frames(std::span<const OutgoingSlice> slices) {
  const std::size_t slice_bytes = slices.empty() ? 0 : slices.front().bytes.size();
  std::string out;
  out.reserve(kHeadBytes + slices.size() * (kFrameHeadBytes + slice_bytes));
  append(out, kMagic);
  append(out, static_cast<std::uint32_t>(slices.size()));
  append(out, static_cast<std::uint32_t>(slice_bytes));
  append(out, std::uint32_t{0});
  for (const OutgoingSlice& slice : slices) {
    append(out, slice.id.layer);
    append(out, slice.id.expert);
    append(out, slice.id.index);
    append(out, std::uint16_t{0});
    append(out, slice.digest);
    out.append(reinterpret_cast<const char*>(slice.bytes.data()), slice.bytes.size());
  }
  return out;
}

Expected<std::vector<OutgoingSlice>> parse_slice_frames(std::span<const std::byte> body, std::size_t slice_bytes) {
  if (body.size() < kHeadBytes) return bad(fmt::format("{} bytes are no head", body.size()));
  if (read<std::uint32_t>(body, 0) != kMagic) return bad("wrong magic");
  const std::size_t count = read<std::uint32_t>(body, 4), bytes = read<std::uint32_t>(body, 8);
  if (read<std::uint32_t>(body, 12) != 0) return bad("reserved bytes of the head are not zero");
  if (count == 0 || count > kSlicesPerBodyMax)
    return bad(fmt::format("{} slices; 1 to {} are allowed", count, kSlicesPerBodyMax));
  if (bytes != slice_bytes) return bad(fmt::format("slices of {} bytes, where this model has {}", bytes, slice_bytes));
  const std::size_t frame = kFrameHeadBytes + slice_bytes; // both bounded, so that no product overflows
  if (body.size() != kHeadBytes + count * frame)
    return bad(fmt::format("{} bytes, where {} slices make {}", body.size(), count, kHeadBytes + count * frame));
  std::vector<OutgoingSlice> slices;
  slices.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = body.subspan(kHeadBytes + i * frame, frame);
    if (read<std::uint16_t>(at, 6) != 0) return bad(fmt::format("reserved bytes of frame {} are not zero", i));
    slices.push_back({.id = {read<std::uint16_t>(at, 0), read<std::uint16_t>(at, 2), read<std::uint16_t>(at, 4)},
                      .digest = read<std::uint64_t>(at, 8),
                      .bytes = at.subspan(kFrameHeadBytes)});
  }
  return slices;
}

} // namespace ductl::agent
