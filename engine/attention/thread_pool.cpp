#include "engine/attention/thread_pool.hpp"

#include <algorithm>

namespace ductl::engine {
namespace {

constexpr int kLooks = 2000; // a few microseconds

void pause_briefly() { __builtin_ia32_pause(); }

} // namespace

ThreadPool::ThreadPool(int threads) {
  const int wanted = threads > 0 ? threads : int(std::max(1U, std::thread::hardware_concurrency()));
  workers_.reserve(std::size_t(wanted - 1));
  for (int thread = 1; thread < wanted; ++thread) workers_.emplace_back([this, thread] { work(thread); });
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  jobs_.fetch_add(1);
  jobs_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// A piece that was taken keeps its job alive: run_erased() does not return, and so does not change the job, before the piece is
// done.
bool ThreadPool::take_piece(int thread) {
  std::uint32_t left = pieces_left_.load(std::memory_order_acquire);
  while (left > 0 && !pieces_left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) {}
  if (left == 0) return false;
  const std::uint32_t pieces = pieces_;
  const int begin = int(pieces - left) * piece_;
  call_(context_, begin, std::min(begin + piece_, count_), thread);
  if (pieces_done_.fetch_add(1, std::memory_order_acq_rel) + 1 == pieces) pieces_done_.notify_one();
  return true;
}

void ThreadPool::run_erased(int count, int piece, const void* context, Call call) {
  if (count <= 0) return;
  const std::lock_guard lock(one_at_a_time_);
  if (count <= piece || workers_.empty()) return call(context, 0, count, 0);
  context_ = context;
  call_ = call;
  count_ = count;
  piece_ = piece;
  pieces_ = std::uint32_t((count + piece - 1) / piece);
  pieces_done_.store(0, std::memory_order_relaxed);
  pieces_left_.store(pieces_, std::memory_order_release);
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  while (take_piece(0)) {}
  for (int look = 0; look < kLooks; ++look) {
    if (pieces_done_.load(std::memory_order_acquire) == pieces_) return;
    pause_briefly();
  }
  for (std::uint32_t done = pieces_done_.load(std::memory_order_acquire); done != pieces_;
       done = pieces_done_.load(std::memory_order_acquire))
    pieces_done_.wait(done, std::memory_order_acquire);
}

void ThreadPool::wait_for_job(std::uint32_t seen) {
  for (int look = 0; look < kLooks; ++look) {
    if (jobs_.load(std::memory_order_acquire) != seen) return;
    pause_briefly();
  }
  jobs_.wait(seen, std::memory_order_acquire);
}

void ThreadPool::work(int thread) {
  std::uint32_t seen = 0;
  while (!stopping_) {
    wait_for_job(seen);
    seen = jobs_.load(std::memory_order_acquire);
    while (take_piece(thread)) {}
  }
}

} // namespace ductl::engine
