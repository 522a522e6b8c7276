// A small file that holds a secret. It is read only when it is a regular file, no link, and nobody but its owner may read it;
// the open file is what is checked, so what is read is what was checked.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ductl::agent {

// Closes what it holds.
class Descriptor {
public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

private:
  int fd_;
};

struct Secret {
  std::string_view what;         // as errors name it: "the flock key"
  std::size_t bytes_max = 0;     // of its file
  std::string_view when_exposed; // the next step when others may have read it
};

// None when there is no file. kState, never with a byte of the secret in it.
[[nodiscard]] Expected<std::optional<std::string>> read_secret_file(const std::filesystem::path& file, const Secret& secret);

// Up to the end; `place` stands in errors.
[[nodiscard]] Expected<std::string> read_secret(int fd, const std::string& place, const Secret& secret);

} // namespace ductl::agent
