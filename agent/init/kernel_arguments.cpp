#include "agent/init/kernel_arguments.hpp"

#include <algorithm>

namespace ductl::agent::init {
namespace {

constexpr std::string_view kBootCard = "BOOTIF=", kEthernet = "01-", kAddress = "ip=";

inventory::Ipv4 address_of(std::string_view text) { return inventory::parse_ipv4(text).value_or(0); }

void take_word(std::string_view word, KernelArguments& out) {
  if (word.starts_with(kBootCard)) {
    word.remove_prefix(kBootCard.size());
    if (word.starts_with(kEthernet)) out.boot_mac = inventory::parse_mac(word.substr(kEthernet.size()));
  } else if (word.starts_with(kAddress)) {
    word.remove_prefix(kAddress.size());
    const std::size_t colon = std::min(word.find(':'), word.size());
    out.address = address_of(word.substr(0, colon));
    word.remove_prefix(std::min(colon + 1, word.size()));
    out.host = address_of(word.substr(0, word.find(':')));
  }
}

} // namespace

KernelArguments parse_kernel_arguments(std::string_view line) {
  KernelArguments out;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find_first_of(" \t\n"), line.size());
    take_word(line.substr(0, end), out);
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return out;
}

} // namespace ductl::agent::init
