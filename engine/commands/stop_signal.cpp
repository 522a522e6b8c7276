#include "engine/commands/stop_signal.hpp"

#include <atomic>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace ductl::engine {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT};
std::atomic<int> event_descriptor{-1};
std::atomic<int> signal_seen{0};
static_assert(std::atomic<int>::is_always_lock_free); // used in a signal handler

extern "C" void on_stop_signal(int number) {
  const int saved = errno;
  signal_seen.store(number);
  const unsigned long long one = 1;
  (void)!::write(event_descriptor.load(), &one, sizeof one);
  errno = saved;
}

} // namespace

StopSignal::StopSignal() {
  assert(event_descriptor.load() < 0);
  const int descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0) std::abort(); // out of descriptors at the start of a program
  event_descriptor.store(descriptor);
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (int number : kSignals) ::sigaction(number, &action, nullptr);
}

StopSignal::~StopSignal() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number : kSignals) ::sigaction(number, &action, nullptr);
  ::close(event_descriptor.exchange(-1));
}

int StopSignal::wait() const {
  pollfd waiting{event_descriptor.load(), POLLIN, 0};
  while (signal_seen.load() == 0) (void)::poll(&waiting, 1, -1);
  return signal_seen.load();
}

} // namespace ductl::engine
