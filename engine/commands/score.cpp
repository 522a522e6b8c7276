#include "engine/commands/score.hpp"

#include <algorithm>
#include <cmath>

namespace ductl::engine {

double negative_log_likelihood(std::span<const float> logits, int token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return top + std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

} // namespace ductl::engine
