// A local flock with a tiny random model and a byte-level tokenizer.
#pragma once

#include "tests/support/local_flock.hpp"

#include <filesystem>

namespace ductl::test {

inline constexpr int kTinyVocab = 260;                     // 256 bytes and the markers of ChatML
inline constexpr int kTinyLayers = 4, kTinySlicesEach = 6; // of each layer's one FFN

// A llama checkpoint whose answers never end by themselves: no marker is ever the most probable token.
void write_tiny_model(const std::filesystem::path& folder);

class TinyFlock : public LocalFlock {
public:
  explicit TinyFlock(const LocalFlockOptions& options = {});
  [[nodiscard]] std::filesystem::path model() const { return folder() / "model"; }
};

} // namespace ductl::test
