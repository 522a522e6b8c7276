// A fixed set of threads that share loops over ranges. Which thread takes which piece changes no bit of any result here.
//
// run() may be called from any thread; calls wait for each other. The caller works too. Nothing is allocated a call.
// Idle threads look for work for a few microseconds, then sleep: ducks share these cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace ductl::engine {

class ThreadPool {
public:
  // `threads` work, the caller included; 0 = one a core this process may use.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return int(workers_.size()) + 1; }

  // body(begin, end, thread) for pieces of 0..count-1 of `piece` indices each (the last may be smaller); thread is
  // 0..threads()-1, no two at once with the same number. Returns when all are done. body must not throw, nor call run().
  template <class Body> void run(int count, int piece, const Body& body) {
    run_erased(count, piece, &body, [](const void* context, int begin, int end, int thread) {
      (*static_cast<const Body*>(context))(begin, end, thread);
    });
  }

private:
  using Call = void (*)(const void* context, int begin, int end, int thread);
  void run_erased(int count, int piece, const void* context, Call call);
  void work(int thread);
  bool take_piece(int thread);
  void wait_for_job(std::uint32_t seen);

  std::mutex one_at_a_time_;
  // The job: written before pieces_left_ makes it visible, constant until its last piece is done.
  const void* context_ = nullptr;
  Call call_ = nullptr;
  int count_ = 0, piece_ = 1;
  std::uint32_t pieces_ = 0;
  std::atomic<std::uint32_t> pieces_left_{0}; // not yet taken
  std::atomic<std::uint32_t> pieces_done_{0};
  std::atomic<std::uint32_t> jobs_{0}; // counts up with every job; what idle threads sleep on
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

} // namespace ductl::engine
