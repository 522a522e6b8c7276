// Persistent threads that compute beside the one that owns them: called together for a piece of work, waiting in between.
//
// The owner's thread calls begin() and end(); each member runs the work once in between, if it comes before the end: a member
// that the scheduler lets wait does not hold the others up. No lock and no allocation but in the constructor. What the owner
// wrote before begin() is seen by the members, what they wrote is seen after end().
// With cores of their own the members are pinned and spin for some milliseconds before they sleep; else they sleep at once.
#pragma once

#include "agent/thread_plan.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace ductl::agent {

class Crew {
public:
  // As many members as the plan needs beside the owner's thread: all that compute, less one where the owner computes too.
  // `work(member)` is called from them with 0 .. size()-1; it must not throw.
  Crew(const ThreadPlan& plan, std::function<void(int)> work);
  ~Crew(); // not between begin() and end()
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  void begin();
  [[nodiscard]] bool busy() const; // some member works, or looks whether there is work
  void end();                      // nobody begins any more; returns once nobody works any more

private:
  void live(int member);
  [[nodiscard]] std::uint32_t await(std::uint32_t seen) const;

  const bool own_cores_;
  const std::function<void(int)> work_;
  alignas(64) std::atomic<std::uint32_t> call_{0};   // counts begin() and end(): odd = open
  alignas(64) std::atomic<std::uint32_t> inside_{0}; // members that work, or look whether there is any
  std::atomic<bool> ending_{false};
  std::vector<std::jthread> members_; // last: they use the others
};

// The calling thread runs on the number-th of the cores that this process may use, and on no other. Best effort.
void pin_this_thread(int number);
// One turn of a spinning wait: short and easy on the core's other users at first, giving the core away later. False when it is
// time to sleep.
[[nodiscard]] bool spin_turn(int turn);

} // namespace ductl::agent
