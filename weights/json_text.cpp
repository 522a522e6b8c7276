#include "weights/json_text.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace ductl::weights {

namespace {
struct Refused {
  std::string why;
};
} // namespace

Expected<nlohmann::json> parse_json_object(std::string_view text, int depth_max, ErrorCode code, const std::string& place) {
  using Json = nlohmann::json;
  std::unordered_set<std::string> names;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > depth_max) throw Refused{fmt::format("nested deeper than {} levels", depth_max)};
    if (event == Json::parse_event_t::key && depth == 1) {
      auto& name = value.get_ref<const std::string&>();
      if (!names.insert(name).second) throw Refused{fmt::format("the name \"{}\" stands twice", name)};
    }
    return true;
  };
  try {
    Json parsed = Json::parse(text.begin(), text.end(), watch);
    if (!parsed.is_object()) return fail(code, "not a JSON object", place);
    return parsed;
  } catch (const Refused& refused) { return fail(code, refused.why, place); } catch (const Json::exception& e) {
    return fail(code, fmt::format("not valid JSON: {}", e.what()), place);
  }
}

Expected<std::string> read_text_file(const std::filesystem::path& file, std::uint64_t bytes_max) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail(ErrorCode::kCheckpointFile, fmt::format("cannot be read: {}", std::strerror(errno)), file.string());
  std::string text;
  char buffer[65536];
  while (in.read(buffer, sizeof buffer), in.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(in.gcount()));
    if (text.size() > bytes_max) {
      return fail(ErrorCode::kCheckpointFile, fmt::format("larger than {} bytes, which no such file is", bytes_max),
                  file.string());
    }
  }
  if (in.bad()) return fail(ErrorCode::kCheckpointFile, "reading it failed", file.string());
  return text;
}

} // namespace ductl::weights
