#include "engine/commands/arguments.hpp"
#include "engine/commands/commands.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "weights/hub.hpp"

#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

namespace ductl::engine {
namespace {

using Json = nlohmann::json;
using RowToRow = std::function<Expected<Json>(const Json& row)>;

tl::unexpected<Error> bad_row(const std::string& message) {
  return fail(ErrorCode::kRequestValue, message, "",
              R"(a row is {"text": "..."} for tokenize and {"ids": [1, 2]} for detokenize)");
}

// JSON lines in, one line a row out, in order. Blank lines are skipped. The first bad row ends it.
Expected<void> convert_lines(const RowToRow& convert) {
  std::string line;
  for (long number = 1; std::getline(std::cin, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json row = Json::parse(line, nullptr, false);
    auto result = row.is_object() ? convert(row) : Expected<Json>(bad_row("not a JSON object"));
    if (!result) {
      result.error().place = fmt::format("stdin:{}", number);
      return tl::unexpected(result.error());
    }
    fmt::print("{}\n", result->dump(-1, ' ', false, Json::error_handler_t::replace));
    std::fflush(stdout);
  }
  return {};
}

Expected<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& source) {
  const auto folder = weights::resolve_checkpoint_folder(source);
  if (!folder) return tl::unexpected(folder.error());
  return load_tokenizer(*folder);
}

Expected<std::vector<int>> read_ids(const Json& row, int size) {
  const auto it = row.find("ids");
  if (it == row.end() || !it->is_array()) return bad_row("the row has no list \"ids\"");
  std::vector<int> ids;
  for (const Json& id : *it) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(size)) {
      return bad_row(
          fmt::format("{} is no token id of a vocabulary of {}", id.dump(-1, ' ', false, Json::error_handler_t::replace), size));
    }
    ids.push_back(id.get<int>());
  }
  return ids;
}

} // namespace

Expected<void> run_tokenize(Words words) {
  const OptionSpec specs[] = {{"--no-special", false}};
  const auto arguments = Arguments::parse(words, specs, 1);
  if (!arguments) return tl::unexpected(arguments.error());
  const auto tokenizer = open_tokenizer(arguments->positional(0));
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  const SpecialTokens special = arguments->has("--no-special") ? SpecialTokens::Ignore : SpecialTokens::Match;
  return convert_lines([&](const Json& row) -> Expected<Json> {
    const auto text = row.find("text");
    if (text == row.end() || !text->is_string()) return bad_row("the row has no string \"text\"");
    return Json{{"ids", (*tokenizer)->encode(text->get_ref<const std::string&>(), special)}};
  });
}

Expected<void> run_detokenize(Words words) {
  const auto arguments = Arguments::parse(words, {}, 1);
  if (!arguments) return tl::unexpected(arguments.error());
  const auto tokenizer = open_tokenizer(arguments->positional(0));
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  return convert_lines([&](const Json& row) -> Expected<Json> {
    const auto ids = read_ids(row, (*tokenizer)->size());
    if (!ids) return tl::unexpected(ids.error());
    return Json{{"text", (*tokenizer)->decode(*ids)}};
  });
}

} // namespace ductl::engine
