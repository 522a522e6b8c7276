#include "agent/transport/wait_any.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <poll.h>

namespace ductl::agent {

void wait_any(std::span<const std::unique_ptr<Transport>> transports, Duration timeout) {
  assert(!transports.empty() && transports.size() <= kWaitAnyMax);
  if (transports.size() == 1) {
    transports.front()->wait(timeout);
    return;
  }
  std::array<pollfd, kWaitAnyMax> polls{};
  for (std::size_t i = 0; i < transports.size(); ++i) {
    const int descriptor = transports[i]->wait_descriptor();
    if (descriptor < 0) return transports[i]->wait(timeout);
    polls[i] = {.fd = descriptor, .events = POLLIN, .revents = 0};
  }
  timeout = std::max(timeout, Duration::zero());
  const timespec limit{.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000),
                       .tv_nsec = timeout.count() % 1'000'000'000};
  ::ppoll(polls.data(), transports.size(), &limit, nullptr); // an interrupted wait is a short wait
}

} // namespace ductl::agent
