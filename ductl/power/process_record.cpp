#include "ductl/power/process_record.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ductl::power {
namespace {

constexpr std::chrono::milliseconds kKillGrace{5000}; // a killed process ends as soon as the kernel gets to it

std::string file_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text;
  std::array<char, 4096> some{};
  do { // read() tells by its state where an iterator throws: a process may end while its file in /proc is read
    in.read(some.data(), some.size());
    text.append(some.data(), static_cast<std::size_t>(in.gcount()));
  } while (in);
  return text;
}

std::string kernel_boot_id() {
  std::string id = file_text("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

struct StatLine {
  char state = 'X';
  std::uint64_t start_time_ticks = 0;
};

std::optional<StatLine> read_stat(int pid) {
  const std::string text = file_text(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(')'); // the name may hold anything, blanks and brackets too
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  StatLine line;
  line.state = text[name_end + 2];
  const char* at = text.data() + name_end + 2;
  const char* const end = text.data() + text.size();
  for (int field = 3; field < 22; ++field) { // field 3 is the state, 22 the start time
    at = std::find(at, end, ' ');
    if (at == end) return std::nullopt;
    ++at;
  }
  if (std::from_chars(at, end, line.start_time_ticks).ec != std::errc()) return std::nullopt;
  return line;
}

std::uint64_t kilobytes_after(const std::string& text, const std::string& title) {
  const std::size_t at = text.find(title);
  if (at == std::string::npos) return 0;
  const std::size_t digits = text.find_first_of("0123456789", at + title.size());
  std::uint64_t value = 0;
  if (digits != std::string::npos) std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value;
}

class PidDescriptor {
public:
  explicit PidDescriptor(int pid) : fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}
  ~PidDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  PidDescriptor(const PidDescriptor&) = delete;
  PidDescriptor& operator=(const PidDescriptor&) = delete;
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  [[nodiscard]] bool signal(int number) const { return syscall(SYS_pidfd_send_signal, fd_, number, nullptr, 0) == 0; }
  // True when it has ended.
  [[nodiscard]] bool wait(std::chrono::milliseconds limit) const {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd poller{fd_, POLLIN, 0};
      const int ready = poll(&poller, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
      if (ready > 0) return true;
      if (ready == 0 || errno != EINTR) return false;
    }
  }

private:
  int fd_;
};

} // namespace

std::optional<ProcessRecord> record_of(int pid) {
  const auto line = read_stat(pid);
  if (!line || line->state == 'Z' || line->state == 'X') return std::nullopt;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return ProcessRecord{.pid = pid,
                       .start_time_ticks = line->start_time_ticks,
                       .boot = kernel_boot_id(),
                       .started_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count()};
}

bool is_running(const ProcessRecord& record) {
  if (record.pid <= 0) return false;
  const auto line = read_stat(record.pid);
  return line && line->state != 'Z' && line->state != 'X' && line->start_time_ticks == record.start_time_ticks &&
         record.boot == kernel_boot_id();
}

ProgramFile program_file(const std::filesystem::path& program) {
  struct stat info {};
  if (stat(program.c_str(), &info) != 0) return {};
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size_bytes = static_cast<std::uint64_t>(info.st_size),
          .modified_ns = std::int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

bool is_outdated(const ProcessRecord& record, const std::filesystem::path& program) {
  const ProgramFile now = program_file(program);
  return now != ProgramFile{} && now != record.program;
}

std::uint64_t private_bytes(const ProcessRecord& record) {
  if (!is_running(record)) return 0;
  const std::string status = file_text(fmt::format("/proc/{}/status", record.pid));
  return 1024 * (kilobytes_after(status, "RssAnon:") + kilobytes_after(status, "RssShmem:"));
}

std::optional<ProcessRecord> load_record(const std::filesystem::path& file) {
  const nlohmann::json json = nlohmann::json::parse(file_text(file), nullptr, false);
  const auto number_in = [](const nlohmann::json& object, const char* key) -> std::int64_t {
    const bool there = object.is_object() && object.contains(key) && object[key].is_number_integer();
    return there ? object[key].get<std::int64_t>() : 0;
  };
  const auto number = [&](const char* key) { return number_in(json, key); };
  if (!json.is_object() || number("pid") <= 0 || !json.contains("boot") || !json["boot"].is_string()) return std::nullopt;
  const nlohmann::json program = json.contains("program") ? json["program"] : nlohmann::json();
  return ProcessRecord{.pid = static_cast<int>(number("pid")),
                       .start_time_ticks = static_cast<std::uint64_t>(number("start_time_ticks")),
                       .boot = json["boot"].get<std::string>(),
                       .started_unix_ms = number("started_unix_ms"),
                       .address = static_cast<std::uint32_t>(number("address")),
                       .control_port = static_cast<std::uint16_t>(number("control_port")),
                       .data_port = static_cast<std::uint16_t>(number("data_port")),
                       .api_port = static_cast<std::uint16_t>(number("api_port")),
                       .program = {.device = static_cast<std::uint64_t>(number_in(program, "device")),
                                   .inode = static_cast<std::uint64_t>(number_in(program, "inode")),
                                   .size_bytes = static_cast<std::uint64_t>(number_in(program, "size_bytes")),
                                   .modified_ns = number_in(program, "modified_ns")},
                       .image = json.contains("image") && json["image"].is_string() ? json["image"].get<std::string>() : ""};
}

Expected<void> save_record(const ProcessRecord& record, const std::filesystem::path& file) {
  const nlohmann::ordered_json json = {{"pid", record.pid},
                                       {"start_time_ticks", record.start_time_ticks},
                                       {"boot", record.boot},
                                       {"started_unix_ms", record.started_unix_ms},
                                       {"address", record.address},
                                       {"control_port", record.control_port},
                                       {"data_port", record.data_port},
                                       {"api_port", record.api_port},
                                       {"program",
                                        {{"device", record.program.device},
                                         {"inode", record.program.inode},
                                         {"size_bytes", record.program.size_bytes},
                                         {"modified_ns", record.program.modified_ns}}},
                                       {"image", record.image}};
  const std::filesystem::path part = file.string() + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  out << json.dump() << '\n';
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(part, file, error);
  if (!out || error) {
    return fail(ErrorCode::kState, "cannot write a run file" + (error ? ": " + error.message() : std::string()), file.string(),
                "check the free space and the rights of the state folder");
  }
  return {};
}

void remove_record(const std::filesystem::path& file) {
  std::error_code ignored; // a file that is not there is what we want
  std::filesystem::remove(file, ignored);
}

Expected<void> stop_process(const ProcessRecord& record, std::chrono::milliseconds grace) {
  const PidDescriptor process(record.pid); // opened first: it holds on to the process, so the check below can't go stale
  if (!is_running(record)) return {};
  if (!process.valid())
    return fail(ErrorCode::kPower, fmt::format("cannot open process {}: {}", record.pid, std::strerror(errno)), {},
                fmt::format("end it by hand: kill {}", record.pid));
  if (!process.signal(SIGTERM) && errno != ESRCH) {
    return fail(ErrorCode::kPower, fmt::format("cannot signal process {}: {}", record.pid, std::strerror(errno)), {},
                "stop it as the user who started it");
  }
  if (process.wait(grace)) return {};
  if (!process.signal(SIGKILL) && errno == ESRCH) return {};
  if (process.wait(kKillGrace)) return {};
  return fail(ErrorCode::kPower, fmt::format("process {} does not end, not even when killed", record.pid), {},
              fmt::format("look at /proc/{}/stack: it hangs in the kernel", record.pid));
}

} // namespace ductl::power
