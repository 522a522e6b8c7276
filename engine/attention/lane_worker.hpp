// One thread that runs lanes' work in the order in which it was submitted. What makes AttentionBackend::launch() asynchronous.
// One piece of work a lane at a time; submit(), done() and wait() from one thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace ductl::engine {

class LaneWorker {
public:
  // body(lane) runs on the worker's thread and must not throw.
  LaneWorker(int lanes, std::function<void(int)> body);
  ~LaneWorker(); // after the work that was submitted
  LaneWorker(const LaneWorker&) = delete;
  LaneWorker& operator=(const LaneWorker&) = delete;

  void submit(int lane);             // wait() for the lane's last work came before
  [[nodiscard]] bool done(int lane); // true when nothing was submitted
  void wait(int lane);

private:
  void work();

  std::function<void(int)> body_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> queue_;    // lanes, oldest first; never more than there are
  std::vector<bool> pending_; // by lane: submitted and not yet run
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace ductl::engine
