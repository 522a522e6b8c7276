// FFNs in process, from the checkpoint's own (unquantised) weights: what `--no-ducks` means. The yardstick for the ducks.
#pragma once

#include "engine/moe/ffn.hpp"
#include "weights/checkpoint.hpp"

#include <memory>

namespace ductl::engine {

[[nodiscard]] Expected<std::unique_ptr<Ffn>> make_host_ffn(const weights::Checkpoint& checkpoint, int threads);

} // namespace ductl::engine
