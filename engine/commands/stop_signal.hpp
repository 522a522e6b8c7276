// SIGTERM and SIGINT as something to wait for. Until one is made they end the process at once, which is right while it is
// only loading: nothing has to be put away then.
#pragma once

namespace ductl::engine {

class StopSignal {
public:
  StopSignal(); // one at a time in a process
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  int wait() const; // blocks; the signal's number
};

} // namespace ductl::engine
