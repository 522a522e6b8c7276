// The files that ducks boot from, in memory and by fixed names: no name from the network is ever a path.
//
// A file is read once, hashed, and kept in a sealed memfd: what is served under a hash has that hash for as long as the server
// runs, whatever becomes of the file on disk, and the same bytes serve TFTP (as memory) and HTTP (by sendfile).
// Immutable once shared; may be read by any thread.
#pragma once

#include "inventory/error.hpp"
#include "netboot/bytes.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace ductl::netboot {

class BootFile {
public:
  // kBootFile when memory is short, or a file cannot be read.
  [[nodiscard]] static Expected<std::shared_ptr<const BootFile>> from_bytes(ByteView bytes);
  [[nodiscard]] static Expected<std::shared_ptr<const BootFile>> from_disk(const std::filesystem::path& file);
  ~BootFile();
  BootFile(const BootFile&) = delete;
  BootFile& operator=(const BootFile&) = delete;

  [[nodiscard]] ByteView bytes() const { return bytes_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }        // for sendfile, with an offset of the caller's
  [[nodiscard]] const std::string& sha256() const { return sha256_; } // 64 hex digits

private:
  BootFile() = default;
  Expected<void> fill(std::size_t size, const std::function<bool(std::span<std::byte>)>& read, const std::string& place);

  ByteView bytes_;
  int descriptor_ = -1;
  std::string sha256_;
};

class BootFiles {
public:
  // Under `name`, and under hashed_name(). The last of one name counts.
  void add(const std::string& name, std::shared_ptr<const BootFile> file);
  [[nodiscard]] std::shared_ptr<const BootFile> find(std::string_view name) const; // nothing when there is none
  // "sha256/HEX/NAME": changes with the content.
  [[nodiscard]] std::string hashed_name(const std::string& name) const; // name must have been added

private:
  std::map<std::string, std::shared_ptr<const BootFile>, std::less<>> files_;
};

// "application/efi" for *.efi, which UEFI HTTP boot looks at; text for scripts, octets for all else.
[[nodiscard]] std::string_view content_type(std::string_view name);

} // namespace ductl::netboot
