// config.json and generation_config.json, cut at the first zero byte: either an error or a config that can be computed with.
#include "weights/budget.hpp"
#include "weights/model_config.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cut = text.find('\0');
  const auto config = ductl::weights::parse_model_config(text.substr(0, cut),
                                                         cut == text.npos ? std::string_view() : text.substr(cut + 1), "fuzz");
  if (!config) return 0;
  const auto& c = *config;
  if (c.hidden <= 0 || c.layers <= 0 || c.vocab <= 0 || c.heads <= 0 || c.kv_heads <= 0 || c.heads % c.kv_heads != 0)
    std::abort();
  for (int token : c.eos_tokens) {
    if (token < 0 || token >= c.vocab) std::abort();
  }
  if (c.moe.experts > 0 && (c.moe.experts % c.moe.groups != 0 || c.moe.experts_per_token > c.moe.experts)) std::abort();
  if (ductl::weights::check_sliceable(c) && c.layers * (c.moe.experts + 1) < 10000) (void)ductl::weights::model_sizes(c);
  return 0;
}
