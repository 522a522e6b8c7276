// A local flock with a tiny random model and a byte-level tokenizer.
#pragma once

#include "tests/support/local_flock.hpp"

#include <filesystem>

namespace ductl::test {

inline constexpr int kTinyVocab = 260;                     // 256 bytes and the markers of ChatML
inline constexpr int kTinyLayers = 4, kTinySlicesEach = 6; // of each layer's one FFN

// A llama checkpoint whose answers never end by themselves: no marker is ever the most probable token.
// Another seed is another model.
void write_tiny_model(const std::filesystem::path& folder, std::uint64_t seed = 1, TinyType type = TinyType::Bf16);

class TinyFlock : public LocalFlock {
public:
  explicit TinyFlock(const LocalFlockOptions& options = {});
  [[nodiscard]] std::filesystem::path model() const { return folder() / "model"; }
};

// The built programs once more, in the flock's folder: to be changed by the test.
class OwnPrograms {
public:
  explicit OwnPrograms(const TinyFlock& flock);
  [[nodiscard]] std::vector<std::string> argv(const std::vector<std::string>& arguments) const;
  [[nodiscard]] ProgramResult ductl(const std::vector<std::string>& arguments) const;
  [[nodiscard]] nlohmann::json json(const std::vector<std::string>& arguments) const; // of a command that succeeds

  void rebuild(const std::string& program) const; // the same bytes in a new file
  // From now on the program does not start its work before the file that is returned is there; its `check` does.
  [[nodiscard]] std::filesystem::path hold(const std::string& program) const;

private:
  const TinyFlock& flock_;
  std::filesystem::path bin_;
};

} // namespace ductl::test
