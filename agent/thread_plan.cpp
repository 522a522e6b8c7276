#include "agent/thread_plan.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace ductl::agent {

namespace {

constexpr int kCoresForApart = 3; // with fewer the network's core would be missed

} // namespace

ThreadPlan plan_threads(int cores, bool shared, int threads) {
  ThreadPlan plan;
  const int best = shared ? 1 : cores >= kCoresForApart ? cores - 1 : cores;
  plan.threads = std::clamp(threads > 0 ? threads : best, 1, kThreadsMax);
  plan.own_cores = !shared && plan.threads <= cores;
  plan.network_apart = plan.own_cores && plan.threads < cores;
  return plan;
}

std::string text(const ThreadPlan& plan) {
  return fmt::format("{} thread{} on {}{}", plan.threads, plan.threads == 1 ? "" : "s",
                     plan.own_cores ? "cores of their own" : "shared cores", plan.network_apart ? ", the network apart" : "");
}

} // namespace ductl::agent
