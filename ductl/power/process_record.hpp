// A process that outlives the command that started it, as its run file remembers it (docs/operations.md).
//
// A pid alone says nothing: it is used again. The pid, the start time that the kernel keeps for it and the kernel's boot
// id together name one process for ever, so nothing but our own child is ever signalled. A zombie counts as ended.
// Plain functions over /proc and one small JSON file a process; any thread, different files at once.
#pragma once

#include "inventory/error.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ductl::power {

// One build of one program file: a file that is built, copied or installed anew differs in at least one of these.
struct ProgramFile {
  std::uint64_t device = 0, inode = 0, size_bytes = 0;
  std::int64_t modified_ns = 0;
  bool operator==(const ProgramFile&) const = default;
};
// All zeros when there is no such file.
[[nodiscard]] ProgramFile program_file(const std::filesystem::path& program);

struct ProcessRecord {
  int pid = 0;
  std::uint64_t start_time_ticks = 0; // field 22 of /proc/PID/stat
  std::string boot = {};              // /proc/sys/kernel/random/boot_id
  std::int64_t started_unix_ms = 0;
  std::uint32_t address = 0;                                   // of a duck; 0 = not known, or not of this kind of process
  std::uint16_t control_port = 0, data_port = 0, api_port = 0; // 0 = not known yet, or not of this kind of process
  ProgramFile program = {};                                    // as it was when the process was started
  std::string image = {};                                      // id of the image that a boot server serves; "" = none
  bool operator==(const ProcessRecord&) const = default;
};

// The record of a live process, without its ports and program; empty when there is no such process.
[[nodiscard]] std::optional<ProcessRecord> record_of(int pid);
[[nodiscard]] bool is_running(const ProcessRecord& record);
// The process runs another build than the one that would be started now. False while there is none to start.
[[nodiscard]] bool is_outdated(const ProcessRecord& record, const std::filesystem::path& program);
// Bytes that would come free if it ended (anonymous and shared memory, not mapped files); 0 when it does not run.
[[nodiscard]] std::uint64_t private_bytes(const ProcessRecord& record);

// Empty when there is no file, or when it is not a record (then it names no process of ours).
[[nodiscard]] std::optional<ProcessRecord> load_record(const std::filesystem::path& file);
[[nodiscard]] Expected<void> save_record(const ProcessRecord& record, const std::filesystem::path& file); // write, rename
void remove_record(const std::filesystem::path& file);

// SIGTERM, up to `grace` for it to end, then SIGKILL. Ok when it did not run in the first place.
[[nodiscard]] Expected<void> stop_process(const ProcessRecord& record, std::chrono::milliseconds grace);

} // namespace ductl::power
