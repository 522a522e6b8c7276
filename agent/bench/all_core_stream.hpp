// Streaming reads by several cores at once, of memory that no cache holds: what a whole program on this machine is measured
// against. One call at a time; each measures on memory that has not been read for longer than the last level cache is large.
#pragma once

#include "agent/bench/machine.hpp"
#include "agent/bench/mapped_memory.hpp"

namespace ductl::agent::bench {

class AllCoreStream {
public:
  // As much as `threads` threads need, touched. kHostMemory when there is none.
  [[nodiscard]] static Expected<AllCoreStream> make(int threads);
  [[nodiscard]] static std::size_t bytes_needed();
  // Bytes a second of all threads together; the best of the settings that looked best at first.
  [[nodiscard]] double rate();

private:
  [[nodiscard]] double rate(const StreamSetting& setting);

  int threads_ = 1;
  std::size_t bytes_ = 0, at_ = 0; // of each thread's part
  MappedMemory memory_;
  std::vector<StreamSetting> settings_;
  std::uint64_t sink_ = 0;
};

} // namespace ductl::agent::bench
