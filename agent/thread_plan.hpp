// How many threads a duck computes with, and whether they may have cores for themselves. Decides only; crew.hpp does it.
//
// Where every thread has a core of its own they are pinned and spin between rounds, and a core that no thread computes on is the
// network thread's alone, so that the next request is taken in meanwhile. Where threads outnumber cores, or other agents share
// the machine, nobody is pinned or spins, and the network thread is one of those that compute.
#pragma once

#include <string>

namespace ductl::agent {

inline constexpr int kThreadsMax = 64; // that compute

struct ThreadPlan {
  int threads = 1;            // that compute
  bool network_apart = false; // the network thread is none of them
  bool own_cores = false;     // each thread, the network's too, has a core for itself
  bool operator==(const ThreadPlan&) const = default;
};

// `cores` that this process may use; `shared` = with other agents, as on a local flock. `threads` asked for, 0 = the best:
// shared, one, as the ducks together are many; else all cores but the network's, up from three.
[[nodiscard]] ThreadPlan plan_threads(int cores, bool shared, int threads);
// "3 threads on cores of their own, the network apart".
[[nodiscard]] std::string text(const ThreadPlan& plan);

} // namespace ductl::agent
