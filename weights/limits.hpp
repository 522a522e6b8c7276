// How large a model may be for the whole path: its slices, the control plane that announces it, and the frames that carry its
// hidden states. check_sliceable() refuses what is beyond them before anything is packed; the wire's buffers are cut for them.
#pragma once

namespace ductl::weights {

inline constexpr int kHiddenMax = 32768;
inline constexpr int kLayersMax = 1024;
inline constexpr int kChoicesMax = 64; // experts of one token, the shared one among them

} // namespace ductl::weights
