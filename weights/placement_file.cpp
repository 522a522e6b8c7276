// The placement as a file: docs/slices.md, "Placement file". JSON, the owners of an expert as runs.
#include "weights/placement.hpp"
#include "weights/whole_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::weights {

namespace {

using Json = nlohmann::json;

constexpr const char* kSchema = "ductl/placement/v1";
constexpr std::size_t kSlicesMax = 0xFFFF; // of an expert

Json runs_of(const std::vector<std::uint16_t>& owners) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < owners.size();) {
    std::size_t end = i;
    while (end < owners.size() && owners[end] == owners[i]) ++end;
    runs.push_back(owners[i]);
    runs.push_back(end - i);
    i = end;
  }
  return runs;
}

// Throws what is caught below: a shape that does not fit is a damaged file, however it is found.
std::vector<std::uint16_t> owners_of(const Json& runs, std::size_t ducks) {
  std::vector<std::uint16_t> owners;
  for (std::size_t i = 0; i + 1 < runs.size(); i += 2) {
    const auto duck = runs.at(i).get<std::uint64_t>(), count = runs.at(i + 1).get<std::uint64_t>();
    if (duck >= ducks || count > kSlicesMax - owners.size()) throw std::out_of_range("a run beyond the ducks or slices");
    owners.insert(owners.end(), count, static_cast<std::uint16_t>(duck));
  }
  return owners;
}

Placement from_json(const Json& json) {
  if (json.at("schema").get<std::string>() != kSchema) throw std::invalid_argument("of another schema");
  Placement placement;
  placement.epoch = json.at("epoch").get<std::uint32_t>();
  placement.model_id = json.at("model_id").get<std::string>();
  placement.ducks = json.at("ducks").get<std::vector<std::string>>();
  for (const Json& layer : json.at("owner")) {
    auto& experts = placement.owner.emplace_back();
    for (const Json& runs : layer) experts.push_back(owners_of(runs, placement.ducks.size()));
  }
  return placement;
}

} // namespace

Expected<void> save_placement(const Placement& placement, const std::filesystem::path& file) {
  Json owner = Json::array();
  for (const auto& layer : placement.owner) {
    Json& experts = owner.emplace_back(Json::array());
    for (const auto& owners : layer) experts.push_back(runs_of(owners));
  }
  const Json json = {{"schema", kSchema},
                     {"epoch", placement.epoch},
                     {"model_id", placement.model_id},
                     {"ducks", placement.ducks},
                     {"owner", std::move(owner)}};
  return replace_whole_file(file, json.dump() + "\n");
}

Expected<Placement> load_placement(const std::filesystem::path& file) {
  const auto contents = read_whole_file(file);
  if (!contents) return tl::unexpected<Error>(contents.error());
  try {
    return from_json(Json::parse(*contents));
  } catch (const std::exception& cause) {
    return fail(ErrorCode::kState, fmt::format("not a sound placement: {}", cause.what()), file.string(),
                "delete the file; slices will be placed anew");
  }
}

} // namespace ductl::weights
