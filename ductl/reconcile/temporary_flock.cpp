#include "ductl/reconcile/temporary_flock.hpp"

#include "ductl/power/process_record.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <tuple>

namespace ductl::reconcile {
namespace {

constexpr inventory::Ipv4 kTemporaryNet = 0x7f150000;      // 127.21.0.0
constexpr std::uint32_t kSubnetFirst = 32, kSubnets = 208; // third byte; those below belong to flocks with an inventory file
constexpr std::uint32_t kFirstDuckHost = 101;
constexpr std::size_t kLogsTold = 8, kLinesTold = 6;

std::string last_lines(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::deque<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    lines.push_back("  " + line.substr(0, 400) + "\n");
    if (lines.size() > kLinesTold) lines.pop_front();
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

} // namespace

inventory::Flock temporary_inventory(std::uint32_t token, int ducks, const std::string& model_source) {
  const inventory::Ipv4 subnet = kTemporaryNet | (kSubnetFirst + token % kSubnets) << 8;
  inventory::Flock flock;
  flock.name = fmt::format("temporary-{:08x}", token);
  inventory::Port port;
  port.name = "port1";
  port.interface = "lo";
  port.address = subnet | 1;
  flock.ports.push_back(std::move(port));
  for (int i = 0; i < ducks; ++i) {
    inventory::Duck duck;
    duck.name = fmt::format("duck{:02}", i + 1);
    duck.address = subnet | (kFirstDuckHost + static_cast<std::uint32_t>(i));
    flock.ducks.push_back(std::move(duck));
  }
  flock.agent_ports = {.control = 0, .data = 0};
  flock.model.source = model_source;
  return flock;
}

Expected<std::unique_ptr<TemporaryFlock>> TemporaryFlock::make(int ducks, const std::string& model_source) {
  if (ducks < 1 || ducks > kTemporaryDucksMax) {
    return fail(ErrorCode::kUsage, fmt::format("a temporary flock has 1 to {} ducks, not {}", kTemporaryDucksMax, ducks), {},
                "give another number with --ducks");
  }
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "ductl-XXXXXX").string();
  if (error || mkdtemp(folder.data()) == nullptr) {
    return fail(ErrorCode::kState, fmt::format("cannot make a temporary folder: {}", std::strerror(errno)), folder,
                "point $TMPDIR at a folder that can be written");
  }
  return std::unique_ptr<TemporaryFlock>(
      new TemporaryFlock(temporary_inventory(std::random_device{}(), ducks, model_source), agent::StateFolder{folder}));
}

ReconcileReport TemporaryFlock::raise(WalkOptions walk) {
  walk.goal = Goal::Filled;
  return raise_flock(flock_, walk);
}

ReconcileReport TemporaryFlock::lower() {
  lowered_ = true;
  ReconcileReport report = lower_flock(flock_, {});
  const std::string folder = flock_.state().root.string();
  for (Error& error : report.errors) { // no inventory, so no `ductl down`, knows this flock
    error.next = fmt::format("its processes are those of the run files in {}: end them by pid, then remove that folder", folder);
  }
  if (!report.converged()) return report;
  std::error_code error;
  std::filesystem::remove_all(flock_.state().root, error);
  if (error) {
    report.errors.push_back(Error{ErrorCode::kState, "cannot remove the temporary flock's folder: " + error.message(), folder,
                                  "remove it; nothing runs from it any more"});
  }
  return report;
}

std::string TemporaryFlock::last_words() const {
  struct Log {
    std::filesystem::path file;
    bool runs; // its process
  };
  std::vector<Log> logs;
  std::error_code error;
  const std::filesystem::path folder = flock_.state().log(kEngineProcess).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension();
    if (extension != ".log" && extension != ".out") continue;
    const auto record = power::load_record(flock_.state().run(entry.path().stem()));
    logs.push_back({entry.path(), record && power::is_running(*record)});
  }
  std::sort(logs.begin(), logs.end(),
            [](const Log& a, const Log& b) { return std::tie(a.runs, a.file) < std::tie(b.runs, b.file); });
  std::string text;
  std::size_t told = 0;
  for (const Log& log : logs) {
    const std::string end = last_lines(log.file);
    if (end.empty() || ++told > kLogsTold) continue;
    text += fmt::format("{}{}:\n{}", log.file.string(), log.runs ? "" : " (its process has ended)", end);
  }
  if (told > kLogsTold) text += fmt::format("and {} more\n", told - kLogsTold);
  return text;
}

TemporaryFlock::~TemporaryFlock() {
  if (!lowered_) (void)lower(); // an exception's way out: nobody is left to tell
}

} // namespace ductl::reconcile
