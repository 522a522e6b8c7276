// Threads that run handlers. Jobs wait in order; stop() drops those not begun and joins.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ductl::http {

class WorkerPool {
public:
  explicit WorkerPool(int threads);
  ~WorkerPool() { stop(); }
  void submit(std::function<void()> job); // dropped after stop()
  void stop();                            // not from a job

private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

} // namespace ductl::http
