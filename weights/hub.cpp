#include "weights/hub.hpp"

#include "weights/json_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <vector>

namespace ductl::weights {
namespace {

namespace fs = std::filesystem;

bool is_name(std::string_view part) { // of an organisation, a model or a revision: never a path
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !part.empty() && part.size() <= 128 && part.front() != '.' && std::all_of(part.begin(), part.end(), fine);
}

std::string trimmed(std::string text) {
  const auto end = text.find_last_not_of(" \t\r\n");
  text.erase(end == std::string::npos ? 0 : end + 1);
  return text;
}

std::vector<fs::path> snapshots_of(const fs::path& repo) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(repo / "snapshots", error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory(error)) found.push_back(it->path());
  }
  return found;
}

Expected<fs::path> snapshot(const fs::path& repo, const std::string& source) {
  const std::string again = fmt::format("fetch it again into the hub cache (`huggingface-cli download {}`)", source);
  std::error_code ignored;
  if (fs::exists(repo / "refs" / "main", ignored)) {
    auto text = read_text_file(repo / "refs" / "main", 4096);
    if (!text) return tl::unexpected(text.error());
    const std::string commit = trimmed(std::move(*text));
    if (!is_name(commit))
      return fail(ErrorCode::kCheckpointFile, "refs/main does not name a commit", (repo / "refs" / "main").string(), again);
    const fs::path folder = repo / "snapshots" / commit;
    if (fs::is_directory(folder, ignored)) return folder;
    return fail(ErrorCode::kCheckpointFile, fmt::format("refs/main names commit {}, but that snapshot is not there", commit),
                repo.string(), again);
  }
  const auto found = snapshots_of(repo);
  if (found.size() == 1) return found.front();
  return fail(ErrorCode::kCheckpointFile,
              found.empty()
                  ? std::string("the hub cache has this model's folder, but no snapshot in it")
                  : fmt::format("the hub cache has {} snapshots of this model and no refs/main to choose by", found.size()),
              repo.string(), found.empty() ? again : "name the snapshot's folder itself as the model's source");
}

} // namespace

fs::path hub_cache(const Environment& environment) {
  const auto value = [&](const char* name) {
    const auto text = environment(name);
    return text && !text->empty() ? text : std::nullopt;
  };
  if (const auto cache = value("HF_HUB_CACHE")) return *cache;
  if (const auto home = value("HF_HOME")) return fs::path(*home) / "hub";
  return fs::path(value("HOME").value_or("/")) / ".cache" / "huggingface" / "hub";
}

Expected<fs::path> resolve_checkpoint_folder(const std::string& source, const Environment& environment) {
  std::error_code ignored;
  if (source.empty())
    return fail(ErrorCode::kCheckpointFile, "no model is named", "", "set model.source to a checkpoint's folder");
  if (fs::is_directory(source, ignored)) return fs::path(source);
  if (fs::exists(source, ignored)) {
    return fail(ErrorCode::kCheckpointFile, "a file, not a checkpoint's folder", source,
                "name the folder that holds config.json");
  }
  const auto slash = source.find('/');
  const bool hub_name = slash != std::string::npos && is_name(source.substr(0, slash)) && is_name(source.substr(slash + 1));
  if (!hub_name) {
    return fail(ErrorCode::kCheckpointFile, "no such folder", source,
                "check the path, or name a model of the hub cache as org/name");
  }
  const fs::path cache = hub_cache(environment);
  const fs::path repo = cache / fmt::format("models--{}--{}", source.substr(0, slash), source.substr(slash + 1));
  if (!fs::is_directory(repo, ignored)) {
    return fail(ErrorCode::kCheckpointFile, fmt::format("neither a folder nor a model in the hub cache {}", cache.string()),
                source, fmt::format("fetch it first (`huggingface-cli download {}`), or give its folder", source));
  }
  return snapshot(repo, source);
}

Expected<fs::path> resolve_checkpoint_folder(const std::string& source) {
  return resolve_checkpoint_folder(source, [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

} // namespace ductl::weights
