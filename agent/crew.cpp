#include "agent/crew.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

namespace ductl::agent {

namespace {

constexpr int kPauses = 4000, kYields = 2000; // some 100 us and 1 ms: rounds of a token follow each other as fast

int members_of(const ThreadPlan& plan) { return plan.network_apart ? plan.threads : plan.threads - 1; }

constexpr bool is_open(std::uint32_t call) { return (call & 1) != 0; }

} // namespace

Crew::Crew(const ThreadPlan& plan, std::function<void(int)> work) : own_cores_(plan.own_cores), work_(std::move(work)) {
  members_.reserve(static_cast<std::size_t>(members_of(plan)));
  for (int member = 0; member < members_of(plan); ++member) members_.emplace_back([this, member] { live(member); });
}

Crew::~Crew() {
  ending_.store(true);
  call_.fetch_add(2); // still closed, but another one
  call_.notify_all();
}

void Crew::begin() {
  call_.fetch_add(1);
  call_.notify_all();
}

bool Crew::busy() const { return inside_.load() != 0; }

void Crew::end() {
  call_.fetch_add(1);
  for (int turn = 0;; ++turn) {
    const std::uint32_t inside = inside_.load();
    if (inside == 0) return;
    if (own_cores_)
      (void)spin_turn(turn);
    else
      inside_.wait(inside);
  }
}

// The call that is open now and was not seen before; or any, once the crew ends.
std::uint32_t Crew::await(std::uint32_t seen) const {
  for (int turn = 0;; ++turn) {
    const std::uint32_t call = call_.load();
    if (ending_.load() || (is_open(call) && call != seen)) return call;
    if (!own_cores_ || !spin_turn(turn)) call_.wait(call);
  }
}

void Crew::live(int member) {
  pthread_setname_np(pthread_self(), fmt::format("compute {}", member + 1).c_str());
  if (own_cores_) pin_this_thread(member + 1);
  std::uint32_t seen = 0;
  for (;;) {
    (void)await(seen);
    if (ending_.load()) return;
    // Either end() sees this member inside, or the member sees that the call is over: all of it is one sequence.
    inside_.fetch_add(1);
    const std::uint32_t call = call_.load();
    if (is_open(call) && call != seen) {
      seen = call;
      work_(member);
    }
    if (inside_.fetch_sub(1) == 1) inside_.notify_one();
  }
}

void pin_this_thread(int number) {
  cpu_set_t allowed, chosen;
  CPU_ZERO(&allowed);
  CPU_ZERO(&chosen);
  if (::sched_getaffinity(::getpid(), sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || number-- != 0) continue;
    CPU_SET(cpu, &chosen);
    (void)::pthread_setaffinity_np(::pthread_self(), sizeof chosen, &chosen);
    return;
  }
}

bool spin_turn(int turn) {
  if (turn < kPauses)
    __builtin_ia32_pause();
  else
    ::sched_yield();
  return turn < kPauses + kYields;
}

} // namespace ductl::agent
