#include "ductl/commands/options.hpp"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <poll.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace ductl::commands {
namespace {

const std::map<std::string, OutputFormat> kFormats{
    {"table", OutputFormat::Table}, {"wide", OutputFormat::Wide}, {"json", OutputFormat::Json}, {"jsonl", OutputFormat::Jsonl}};

// Whole, or up to the error that is returned (errno).
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) { // somebody made the terminal non-blocking
      pollfd room{descriptor, POLLOUT, 0};
      ::poll(&room, 1, -1);
      continue;
    }
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int columns_of(int descriptor) {
  constexpr int kColumnsUsual = 80;
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kColumnsUsual;
}

Stream open_stream(int descriptor, bool no_color_option) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const StreamFacts facts{::isatty(descriptor) == 1, no_color != nullptr && *no_color != '\0',
                          term != nullptr && std::string_view(term) == "dumb"};
  Stream stream;
  // A reader that went away does not stop `up`; who must stop asks for the fault.
  const auto fault = std::make_shared<int>(0);
  stream.write = [descriptor, fault](std::string_view text) {
    if (*fault == 0) *fault = write_all(descriptor, text);
  };
  stream.fault = [fault] { return *fault; };
  stream.is_terminal = facts.is_terminal && !facts.dumb_terminal; // no live lines on a dumb one
  stream.colour = use_colour(facts, no_color_option);
  stream.columns = columns_of(descriptor);
  return stream;
}

} // namespace

bool use_colour(const StreamFacts& facts, bool no_color_option) {
  return facts.is_terminal && !facts.no_color_variable && !facts.dumb_terminal && !no_color_option;
}

void add_global_options(CLI::App& app, GlobalOptions& options) {
  constexpr const char* kGroup = "Global options (before or after the verb)";
  app.add_option("-i,--inventory", options.inventory, "The flock's inventory file")
      ->check([](const std::string& file) { return file.empty() ? std::string("the file name is empty") : std::string(); })
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("-o,--output", options.output, "table, wide, json or jsonl")
      ->check(CLI::IsMember({"table", "wide", "json", "jsonl"}))
      ->type_name("FORMAT")
      ->group(kGroup);
  app.add_flag("--no-color", options.no_color, "No colours (also: NO_COLOR, TERM=dumb)")->group(kGroup);
  app.add_flag("--yes", options.yes, "Answer yes where a command asks")->group(kGroup);
}

void apply_global_options(const GlobalOptions& options, CommandContext& context) {
  context.inventory_option = options.inventory;
  context.format = kFormats.at(options.output);
  context.yes = options.yes;
  context.out = open_stream(STDOUT_FILENO, options.no_color);
  context.err = open_stream(STDERR_FILENO, options.no_color);
  context.input_is_terminal = ::isatty(STDIN_FILENO) == 1;
}

} // namespace ductl::commands
