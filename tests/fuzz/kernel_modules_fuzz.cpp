// depmod's lists, joined by NUL bytes: whatever they say, a load order has every file once and each need before its user,
// and the trimmed lists give the same order again.
#include "netboot/image/modules/module_index.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

using namespace ductl::image;

namespace {

std::string cut(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  std::string text(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return text;
}

std::vector<std::string> flat(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.emplace_back(flat_name(file));
  return names;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const ModuleTexts texts{cut(rest), cut(rest), cut(rest), cut(rest)};
  const std::string modalias(rest);
  const auto index = ModuleIndex::parse(texts, "fuzz");
  if (!index) return 0;
  for (const std::string& name : index->modules_for(modalias)) {
    const auto order = index->load_order({name});
    if (!order) continue;
    if (std::set<std::string>(order->begin(), order->end()).size() != order->size()) std::abort();
    const auto trimmed = index->trimmed(*order);
    if (!trimmed) std::abort(); // names are unique in the index
    const auto again = ModuleIndex::parse(*trimmed, "fuzz");
    if (!again) std::abort();
    const auto order_again = again->load_order({name});
    if (order->empty() != !order_again.has_value()) std::abort(); // a built-in one has no line in the trimmed lists
    if (order_again && *order_again != flat(*order)) std::abort();
  }
  return 0;
}
