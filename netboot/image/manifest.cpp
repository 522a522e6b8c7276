#include "netboot/image/manifest.hpp"

#include "netboot/image/digest.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ductl::image {
namespace {

using Json = nlohmann::ordered_json;

Json digests_json(const std::map<std::string, FileDigest>& files) {
  Json json = Json::object();
  for (const auto& [name, file] : files) json[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  return json;
}

std::map<std::string, FileDigest> read_digests(const Json& json) {
  std::map<std::string, FileDigest> files;
  for (const auto& [name, file] : json.items())
    files[name] = {file.at("bytes").get<std::uint64_t>(), file.at("sha256").get<std::string>()};
  return files;
}

// Throws nlohmann's exceptions, which name the key.
Manifest read_manifest(const Json& json) {
  Manifest manifest;
  json.at("image").get_to(manifest.image);
  json.at("ductl").at("version").get_to(manifest.ductl_version);
  json.at("ductl").at("revision").get_to(manifest.ductl_revision);
  json.at("kernel_release").get_to(manifest.kernel_release);
  json.at("command_line").get_to(manifest.command_line);
  for (const auto& [use, package] : json.at("packages").items())
    manifest.packages[use] = {package.at("name").get<std::string>(), package.at("version").get<std::string>()};
  json.at("modules").get_to(manifest.modules);
  json.at("firmware").get_to(manifest.firmware);
  json.at("parts").get_to(manifest.parts);
  manifest.files = read_digests(json.at("files"));
  manifest.loaders = read_digests(json.at("loaders"));
  return manifest;
}

bool is_digest(std::string_view text) {
  return text.size() == kDigestLetters && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool digests_are_whole(const Manifest& manifest) {
  const auto file_good = [](const auto& named) { return is_digest(named.second.sha256); };
  return std::all_of(manifest.parts.begin(), manifest.parts.end(), [](const auto& part) { return is_digest(part.second); }) &&
         std::all_of(manifest.files.begin(), manifest.files.end(), file_good) &&
         std::all_of(manifest.loaders.begin(), manifest.loaders.end(), file_good);
}

tl::unexpected<Error> bad(const std::string& place, std::string why) {
  return fail(ErrorCode::kImageInput, "no manifest of an image: " + std::move(why), place, "build it anew: ninja duck-image");
}

} // namespace

FileDigest digest_of(std::string_view bytes) { return {bytes.size(), sha256(bytes)}; }

std::string image_id(const ImageParts& parts) {
  std::string lines;
  for (const auto& [name, digest] : parts) lines += fmt::format("{}  {}\n", digest, name);
  return sha256(lines);
}

std::string manifest_text(const Manifest& manifest) {
  Json packages = Json::object();
  for (const auto& [use, package] : manifest.packages) packages[use] = {{"name", package.name}, {"version", package.version}};
  const Json json{{"format", kManifestFormat},
                  {"image", manifest.image},
                  {"ductl", {{"version", manifest.ductl_version}, {"revision", manifest.ductl_revision}}},
                  {"kernel_release", manifest.kernel_release},
                  {"command_line", manifest.command_line},
                  {"packages", packages},
                  {"modules", manifest.modules},
                  {"firmware", manifest.firmware},
                  {"parts", manifest.parts},
                  {"files", digests_json(manifest.files)},
                  {"loaders", digests_json(manifest.loaders)}};
  return json.dump(2) + "\n";
}

Expected<Manifest> parse_manifest(std::string_view text, const std::string& place) {
  Manifest manifest;
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kManifestFormat)
      return bad(place, fmt::format("its format is {}, this program reads {}", json.at("format").dump(), kManifestFormat));
    manifest = read_manifest(json);
  } catch (const Json::exception& error) { return bad(place, error.what()); }
  if (!digests_are_whole(manifest)) return bad(place, "a digest in it is not 64 hexadecimal digits");
  if (manifest.image != image_id(manifest.parts)) return bad(place, "its id is not that of its parts");
  return manifest;
}

} // namespace ductl::image
