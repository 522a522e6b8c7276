#include "ductl/reconcile/straggler.hpp"

#include <fmt/format.h>

namespace ductl::reconcile {
namespace {

constexpr double kGiga = 1e9;

void compare(const Observed& observed, const char* check, const char* does, std::map<std::string, std::string>& slow) {
  std::vector<std::pair<std::int64_t, std::string>> figures;
  for (const ObservedDuck& duck : observed.ducks) {
    const agent::HealthCheck* found = duck.health ? agent::find(*duck.health, check) : nullptr;
    if (found != nullptr && found->figure && *found->figure > 0) figures.emplace_back(*found->figure, duck.name);
  }
  if (figures.size() < kStragglerDucksMin) return;
  std::sort(figures.begin(), figures.end());
  const double median = static_cast<double>(figures[figures.size() / 2].first);
  for (const auto& [figure, name] : figures) {
    if (static_cast<double>(figure) >= kStragglerShare * median) break;
    std::string& text = slow[name];
    text += fmt::format("{}{} {:.2f} GB/s, the flock's median is {:.2f}", text.empty() ? "" : "; ", does,
                        static_cast<double>(figure) / kGiga, median / kGiga);
  }
}

} // namespace

std::map<std::string, std::string> stragglers(const Observed& observed) {
  std::map<std::string, std::string> slow;
  compare(observed, agent::check::kStream, "reads memory at", slow);
  compare(observed, agent::check::kKernel, "computes", slow);
  return slow;
}

} // namespace ductl::reconcile
