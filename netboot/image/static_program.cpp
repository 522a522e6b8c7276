#include "netboot/image/static_program.hpp"

#include <cstring>
#include <elf.h>

namespace ductl::image {
namespace {

tl::unexpected<Error> refuse(const std::string& place, std::string why) {
  return fail(ErrorCode::kImageInput, "cannot be PID 1 of the image: " + std::move(why), place,
              "give the agent that the target duck-agent-static builds");
}

} // namespace

Expected<void> check_static_program(std::string_view file, const std::string& place) {
  Elf64_Ehdr head{};
  if (file.size() < sizeof head || !file.starts_with(ELFMAG)) return refuse(place, "it is no ELF program");
  std::memcpy(&head, file.data(), sizeof head);
  const bool program = head.e_type == ET_EXEC || head.e_type == ET_DYN;
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_X86_64 || !program)
    return refuse(place, "it is no program for x86-64");
  for (std::size_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (head.e_phoff > file.size() || i * sizeof segment + sizeof segment > file.size() - head.e_phoff)
      return refuse(place, "it is cut off in its program headers");
    std::memcpy(&segment, file.data() + head.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_INTERP) return refuse(place, "it is linked dynamically, and the image holds no libraries");
  }
  return {};
}

} // namespace ductl::image
