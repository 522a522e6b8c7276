// The data-plane side of a duck: takes requests in, computes its slices, sends replies. One thread, the one in run(), and those
// that the plan has computing beside it.
//
// The deciding part (reassembly, duplicates, NACKs, the cached last reply) is DuckRound in agent/wire, sans-I/O; this loop
// joins it to a Transport, the slice store and the kernels. Between slices the loop takes in frames, so that a busy duck still
// answers.
#pragma once

#include "agent/kernels/expert.hpp"
#include "agent/store/slice_store.hpp"
#include "agent/thread_plan.hpp"
#include "agent/transport/transport.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace ductl::agent {

// What the control plane set up (POST /v1/session); replaced as a whole by a newer one.
struct DataSession {
  std::uint64_t tag = 0; // in every frame; 0 = none
  std::uint32_t epoch = 0;
  std::uint16_t duck = 0; // this duck's number on the wire
  bool bf16_hidden = false, compact_reply = false;
};

struct ExpertServerStats { // written by the loop, read by the control plane
  std::atomic<std::uint64_t> rounds{0}, slices{0}, frames_in{0}, frames_out{0}, frames_dropped{0}, frames_corrupt{0},
      frames_foreign{0}, nacks_sent{0}, nacks_received{0}, refusals{0}, compute_ns{0};
}; // frames_dropped: well formed and ours, but stale, doubled or contradicting

class ExpertServer {
public:
  ExpertServer(Transport& transport, SliceStore& store, const ExpertKernels& kernels, const ThreadPlan& plan = {});
  ~ExpertServer();
  void run();  // until stop(); the data-plane thread
  void stop(); // any thread
  // Any thread; takes effect before the next burst of frames (32 at most) is believed.
  void set_session(const DataSession& session);
  [[nodiscard]] const ExpertServerStats& stats() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace ductl::agent
