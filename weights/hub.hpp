// From what a person writes to the folder that holds a checkpoint: a path, or "org/name" in the Hugging Face hub cache,
// read in place (models--org--name/{refs,snapshots,blobs}). Nothing is fetched and nothing is written.
#pragma once

#include "inventory/error.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace ductl::weights {

using Environment = std::function<std::optional<std::string>(const char*)>;

// $HF_HUB_CACHE, else $HF_HOME/hub, else $HOME/.cache/huggingface/hub.
[[nodiscard]] std::filesystem::path hub_cache(const Environment& environment);

// A folder that exists is taken as it is. Else `source` must look like org/name and have a snapshot in the cache: the one
// that refs/main names, or the only one there is.
[[nodiscard]] Expected<std::filesystem::path> resolve_checkpoint_folder(const std::string& source,
                                                                        const Environment& environment);
[[nodiscard]] Expected<std::filesystem::path>
resolve_checkpoint_folder(const std::string& source); // of this process' environment

} // namespace ductl::weights
