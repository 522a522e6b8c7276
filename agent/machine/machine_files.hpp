// The files in which Linux tells of the machine (/proc, /sys), below a root that tests replace. Values, not errors: a file that
// is absent or not readable is nothing, and the caller says what that means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ductl::agent {

class MachineFiles {
public:
  explicit MachineFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}

  // `path` from the root, without a leading slash: "sys/class/net/eth0/speed".
  [[nodiscard]] std::optional<std::string> text(const std::string& path) const; // whole, at most 1 MiB
  [[nodiscard]] std::optional<std::string> line(const std::string& path) const; // the first one, without its newline
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& path) const;
  [[nodiscard]] std::vector<std::string> names(const std::string& folder) const; // sorted
  [[nodiscard]] bool exists(const std::string& path) const;
  // False when it cannot be written. For the settings that a duck's init makes.
  bool write(const std::string& path, const std::string& value) const;
  bool remove(const std::string& path) const; // false when it is not there or stays
  [[nodiscard]] std::filesystem::path path(const std::string& below) const { return root_ / below; }

private:
  std::filesystem::path root_;
};

} // namespace ductl::agent
