#include "ductl/commands/sampling_options.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>

namespace ductl::commands {
namespace {

// The engine's own limits (engine/sampler.cpp), so that a value it would refuse is refused before anything is sent.
constexpr double kTemperatureMax = 10, kPenaltyMin = 0.01, kPenaltyMax = 10;
constexpr int kTopKMax = 1 << 24;

// CLI::Range lets NaN through: it is neither too small nor too large.
CLI::Validator from_to(double low, double high) {
  const std::string limits = "[" + CLI::detail::to_string(low) + " - " + CLI::detail::to_string(high) + "]";
  const auto check = [low, high, limits](std::string& text) {
    double value = 0;
    const bool inside = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
    return inside ? std::string() : text + " is no number in " + limits;
  };
  return {check, limits};
}

CLI::Validator at_least_one() {
  const auto check = [](std::string& text) {
    int value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= 1;
    return good ? std::string() : text + " is no number of tokens: it must be 1 or more";
  };
  return {check, ""};
}

// CLI11 takes what is too large for the largest number, and -1 for that as well.
CLI::Validator seed_number() {
  const auto check = [](std::string& text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool good = error == std::errc{} && end == text.data() + text.size();
    return good ? std::string() : text + " is no whole number from 0 to 18446744073709551615";
  };
  return {check, ""};
}

} // namespace

void add_ask_options(CLI::App& verb, AskOptions& options) {
  ChatSampling& sampling = options.sampling;
  verb.add_option("--system", options.system, "What the model should be and do")->type_name("TEXT");
  verb.add_option("--max-tokens", sampling.tokens_max, "Longest answer")->check(at_least_one())->type_name("N");
  const char* group = "Sampling (without any of these the likeliest token is taken every time)";
  verb.add_option("--temperature", sampling.temperature, "0 = always the likeliest token; 1 = as the model says")
      ->check(from_to(0, kTemperatureMax))
      ->type_name("T")
      ->group(group);
  verb.add_option("--top-p", sampling.top_p, "Only the likeliest tokens that make up this share")
      ->check(from_to(0, 1))
      ->type_name("P")
      ->group(group);
  verb.add_option("--top-k", sampling.top_k, "Only the K likeliest tokens")
      ->check(CLI::Range(0, kTopKMax))
      ->type_name("K")
      ->group(group);
  verb.add_option("--min-p", sampling.min_p, "Only tokens at least P times as likely as the likeliest")
      ->check(from_to(0, 1))
      ->type_name("P")
      ->group(group);
  verb.add_option("--seed", sampling.seed, "The same seed draws the same answer")
      ->check(seed_number())
      ->type_name("N")
      ->group(group);
  verb.add_option("--repetition-penalty", sampling.repetition_penalty, "Above 1: what was said becomes less likely")
      ->check(from_to(kPenaltyMin, kPenaltyMax))
      ->type_name("R");
}

} // namespace ductl::commands
