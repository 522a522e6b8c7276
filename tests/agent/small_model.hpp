// A model of two layers with stored slices that any hidden bits make: the store does not look inside beyond its guard.
#pragma once

#include "agent/client/control_client.hpp"

#include <xxhash.h>

#include <vector>

namespace ductl::agent {

inline StoreModel small_model(const std::string& id = "model-a") {
  return {.model_id = id, .hidden = 64, .exponent = {{10}, {12}}, .experts = {1, 4}};
}

// Sound slices of that model: zero scales and codes but for a few bytes that tell them apart.
struct SmallSlice {
  weights::SliceId id;
  std::vector<std::byte> bytes;
  weights::SliceDigest digest = 0;

  explicit SmallSlice(weights::SliceId slice_id, int variant = 0) : id(slice_id), bytes(weights::slice_layout(64).bytes) {
    const auto layout = weights::slice_layout(64);
    bytes[layout.panel] = static_cast<std::byte>(id.layer * 64 + id.expert * 16 + id.index);
    bytes[layout.panel + 1] = static_cast<std::byte>(variant);
    digest = XXH3_64bits(bytes.data(), bytes.size());
  }
  [[nodiscard]] OutgoingSlice outgoing() const { return {id, digest, bytes}; }
};

} // namespace ductl::agent
