#include "agent/machine/machine_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>

namespace ductl::agent {
namespace {

constexpr std::size_t kTextBytesMax = 1u << 20;

}

std::optional<std::string> MachineFiles::text(const std::string& path) const {
  std::ifstream in(root_ / path, std::ios::binary);
  if (!in) return std::nullopt;
  std::string text;
  std::array<char, 4096> part{}; // most files have a line
  while (text.size() < kTextBytesMax && in) {
    in.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return std::nullopt; // sysfs: "Invalid argument" where a link is down, say
  return text;
}

std::optional<std::string> MachineFiles::line(const std::string& path) const {
  auto whole = text(path);
  if (!whole || whole->empty()) return std::nullopt;
  whole->resize(std::min(whole->find('\n'), whole->size()));
  return whole;
}

std::optional<std::int64_t> MachineFiles::number(const std::string& path) const {
  const auto first = line(path);
  if (!first) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(first->data(), first->data() + first->size(), value);
  if (error != std::errc{} || end == first->data()) return std::nullopt;
  return value;
}

std::vector<std::string> MachineFiles::names(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root_ / folder, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool MachineFiles::exists(const std::string& path) const {
  std::error_code error;
  return std::filesystem::exists(root_ / path, error);
}

bool MachineFiles::write(const std::string& path, const std::string& value) const {
  std::ofstream out(root_ / path, std::ios::binary);
  out << value << std::flush;
  return out.good();
}

bool MachineFiles::remove(const std::string& path) const {
  std::error_code error;
  return std::filesystem::remove(root_ / path, error);
}

} // namespace ductl::agent
