#include "ductl/commands/interrupt.hpp"

#include <array>
#include <atomic>
#include <cassert>
#include <csignal>
#include <unistd.h>

namespace ductl::commands {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

constexpr int kSignalBase = 128; // the shell's convention: 130, 143, 129

std::atomic<int> caught{0}; // written in the signal handler, read by any thread
std::atomic<bool> second_ends{true};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
bool watching = false;
std::array<struct sigaction, kSignals.size()> before;

void remember(int number) {
  if (caught.exchange(number) != 0 && second_ends) ::_exit(kSignalBase + number);
}

} // namespace

InterruptWatch::InterruptWatch(SecondSignal second) {
  assert(!watching);
  watching = true;
  caught = 0;
  second_ends = second == SecondSignal::Ends;
  struct sigaction action {};
  action.sa_handler = remember; // without SA_RESTART: what blocks comes back with EINTR and asks
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    const bool no_hangup = kSignals[i] == SIGHUP && before[i].sa_handler == SIG_IGN; // started by nohup
    if (!no_hangup) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  watching = false;
}

int InterruptWatch::signal() { return caught; }
ExitCode InterruptWatch::exit_code() { return static_cast<ExitCode>(kSignalBase + caught); }
void InterruptWatch::clear() { caught = 0; }

} // namespace ductl::commands
