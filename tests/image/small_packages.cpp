#include "tests/image/small_packages.hpp"

#include "tests/image/tiny_pe.hpp"
#include "tests/support/files.hpp"

#include <elf.h>
#include <fstream>

namespace ductl::image::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRelease = "6.1.0-57-amd64";

void write_control(const fs::path& package, const std::string& name, const std::string& version) {
  write(package / "DEBIAN/control", "Package: " + name + "\nSource: x\nVersion: " + version + "\nDescription: x\n Version: no\n");
}

void write_kernel(const fs::path& package) {
  write_control(package, "linux-image-6.1.0-57-amd64", "6.1.192-3");
  write(package / "boot" / (std::string("vmlinuz-") + kRelease), tiny_pe());
  const fs::path modules = package / "lib/modules" / kRelease;
  const fs::path lists = fs::path(DUCTL_SOURCE_DIR) / "tests/image/debian_6_1";
  for (const char* list : {"modules.dep", "modules.alias", "modules.softdep", "modules.builtin"})
    write(modules / list, ductl::test::text_of(lists / list));
  std::ifstream lines(lists / "modules.dep");
  for (std::string line; std::getline(lines, line);) {
    const std::string file = line.substr(0, line.find(':'));
    write(modules / file, "module " + file);
  }
}

} // namespace

void write(const fs::path& file, const std::string& contents) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << contents;
}

std::string tiny_elf(bool with_interpreter) {
  Elf64_Ehdr head{};
  std::copy_n(ELFMAG, SELFMAG, head.e_ident);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_type = ET_EXEC;
  head.e_machine = EM_X86_64;
  head.e_phoff = sizeof head;
  head.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = with_interpreter ? PT_INTERP : PT_LOAD;
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) +
         std::string(reinterpret_cast<const char*>(&segment), sizeof segment);
}

ImageInputs small_packages(const fs::path& folder) {
  write_kernel(folder / "kernel");
  write_control(folder / "stub", "systemd-boot-efi", "252");
  write(folder / "stub/usr/lib/systemd/boot/efi/linuxx64.efi.stub", tiny_pe());
  write_control(folder / "firmware", "firmware-realtek", "20230210");
  write(folder / "firmware/lib/firmware/rtl_nic/rtl8168h-2.fw", "firmware");
  write(folder / "firmware/lib/firmware/rtl_nic/readme", "not firmware");
  write_control(folder / "loaders", "ipxe", "1.0.0");
  for (const char* file : {"boot/ipxe.efi", "usr/lib/ipxe/snponly.efi", "usr/lib/ipxe/undionly.kpxe"})
    write(folder / "loaders" / file, file);
  write(folder / "agent", tiny_elf(false));
  ImageInputs inputs;
  inputs.kernel = folder / "kernel";
  inputs.stub = folder / "stub";
  inputs.firmware = folder / "firmware";
  inputs.loaders = folder / "loaders";
  inputs.agent = folder / "agent";
  return inputs;
}

} // namespace ductl::image::test
