// Which tensor names a checkpoint of a family may hold.
//
// A name that is none of these (a bias, a scale, an adapter) is part of a model that this engine does not compute: without it the
// answers would be fluent nonsense. Names only; shapes and types are checked where a tensor is read.
#pragma once

#include "weights/model_config.hpp"

#include <string_view>

namespace ductl::weights {

// True for every tensor that the engine reads, and for those that it rightly leaves alone: a tied head stored once more, old
// exports' rotary frequencies, MTP layers beyond the first, and an MTP layer's copies of embedding and head.
[[nodiscard]] bool is_known_tensor(const ModelConfig& config, std::string_view name);

} // namespace ductl::weights
