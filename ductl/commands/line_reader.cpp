#include "ductl/commands/line_reader.hpp"

#include "ductl/commands/interrupt.hpp"

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <fcntl.h>
#include <fmt/format.h>
#include <histedit.h>
#include <iostream>
#include <poll.h>
#include <unistd.h>

namespace ductl::commands {
namespace {

constexpr int kSignalLookMs = 100; // a signal that came just before the wait is seen after this long

// False when a signal has come. Not read() alone: one that comes before it would be noticed only after the next key.
bool wait_for_key() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (InterruptWatch::signal() == 0) {
    if (::poll(&input, 1, kSignalLookMs) > 0) return true;
  }
  return false;
}

// One character from the terminal. libedit's own reader tries again after a signal; Ctrl-C must come through.
int read_character(EditLine*, wchar_t* character) {
  std::mbstate_t state{};
  for (;;) {
    if (!wait_for_key()) return -1;
    char byte = 0;
    const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR && InterruptWatch::signal() == 0) continue; // a resized window
    if (count <= 0) return static_cast<int>(count);
    constexpr std::size_t kIncomplete = static_cast<std::size_t>(-2), kInvalid = static_cast<std::size_t>(-1);
    const std::size_t used = std::mbrtowc(character, &byte, 1, &state);
    if (used == kIncomplete) continue;
    if (used == kInvalid) state = {}, *character = L'\xfffd';
    return 1;
  }
}

class TerminalReader final : public LineReader {
public:
  TerminalReader(std::string prompt, std::filesystem::path history_file)
      : prompt_(std::move(prompt)),
        history_file_(std::move(history_file)),
        edit_(el_init("ductl", stdin, stdout, stderr)),
        history_(history_init()) {
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryMax);
    history(history_, &event, H_SETUNIQUE, 1);
    history(history_, &event, H_LOAD, history_file_.c_str()); // an empty file has no header and loads nothing
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(
        edit_, EL_PROMPT, +[](EditLine* edit) {
          void* self = nullptr;
          el_get(edit, EL_CLIENTDATA, &self);
          return static_cast<TerminalReader*>(self)->prompt_.data();
        });
    el_set(edit_, EL_SIGNAL, 0); // signals are the InterruptWatch's
    el_set(edit_, EL_GETCFN, read_character);
    el_set(edit_, EL_HIST, history, history_);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(edit_, nullptr); // ~/.editrc
  }

  ~TerminalReader() override {
    HistEvent event;
    history(history_, &event, H_SAVE, history_file_.c_str());
    el_end(edit_); // puts the terminal back
    history_end(history_);
  }
  TerminalReader(const TerminalReader&) = delete;
  TerminalReader& operator=(const TerminalReader&) = delete;

  LineEvent read(std::string& line) override {
    el_resize(edit_);
    int count = 0;
    const char* text = el_gets(edit_, &count);
    if (InterruptWatch::signal() != 0) {
      el_reset(edit_); // ordinary mode, and what was typed is forgotten
      return LineEvent::Interrupted;
    }
    if (text == nullptr || count <= 0) return LineEvent::End;
    line.assign(text, static_cast<std::size_t>(count));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    return LineEvent::Line;
  }

private:
  std::string prompt_;
  std::filesystem::path history_file_;
  EditLine* edit_;
  History* history_;
};

class PlainReader final : public LineReader {
public:
  LineEvent read(std::string& line) override {
    if (std::getline(std::cin, line)) {
      if (line.ends_with('\r')) line.pop_back();
      return LineEvent::Line;
    }
    return InterruptWatch::signal() != 0 ? LineEvent::Interrupted : LineEvent::End;
  }
};

} // namespace

Expected<std::unique_ptr<LineReader>> make_terminal_reader(const std::string& prompt, const std::filesystem::path& history_file) {
  // Without a UTF-8 locale libedit takes characters apart.
  const char* locale = std::setlocale(LC_CTYPE, "");
  if (locale == nullptr || std::strcmp(locale, "C") == 0 || std::strcmp(locale, "POSIX") == 0)
    std::setlocale(LC_CTYPE, "C.UTF-8");
  const int file = ::open(history_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0)
    return fail(ErrorCode::kState, fmt::format("the history cannot be kept: {}", std::strerror(errno)), history_file.string(),
                "is the state folder yours? $XDG_STATE_HOME sets another one");
  ::close(file);
  return std::make_unique<TerminalReader>(prompt, history_file);
}

std::unique_ptr<LineReader> make_plain_reader() { return std::make_unique<PlainReader>(); }

} // namespace ductl::commands
