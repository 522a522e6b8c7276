#include "tests/support/program.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ductl::test {

namespace {

using SteadyClock = std::chrono::steady_clock;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    read = ends[0];
    write = ends[1];
  }
};

std::string program_path(const std::string& name) {
  return name.find('/') == std::string::npos ? std::string(DUCTL_BIN_DIR) + "/" + name : name;
}

void write_input(int descriptor, const std::string& input) {
  for (std::size_t done = 0; done < input.size();) {
    const ssize_t count = write(descriptor, input.data() + done, input.size() - done);
    if (count <= 0) break; // the program does not read it all: its own affair
    done += static_cast<std::size_t>(count);
  }
  close(descriptor);
}

[[noreturn]] void become(const std::vector<std::string>& argv, const ProgramOptions& options, int in, int out, int err) {
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(127);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(program_path(argv[0]).c_str(), arguments.data());
  _exit(127);
}

} // namespace

RunningProgram::RunningProgram(const std::vector<std::string>& argv, const ProgramOptions& options) : options_(options) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe in, out, err;
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) become(argv, options, in.read, out.write, err.write);
  for (const int end : {in.read, out.write, err.write}) close(end);
  in_ = in.write;
  out_ = out.read;
  err_ = err.read;
  write_input(in_, options.input);
}

RunningProgram::~RunningProgram() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int end : {out_, err_}) {
    if (end >= 0) close(end);
  }
}

void RunningProgram::signal(int number) const {
  if (!ended_) kill(pid_, number);
}

bool RunningProgram::read_some(std::chrono::milliseconds limit) {
  std::array<pollfd, 2> polled{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  if (poll(polled.data(), polled.size(), static_cast<int>(limit.count())) <= 0) return out_ >= 0 || err_ >= 0;
  std::array<char, 65536> buffer{};
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    int& end = i == 0 ? out_ : err_;
    const ssize_t count = read(end, buffer.data(), buffer.size());
    if (count > 0) {
      (i == 0 ? result_.out : result_.err).append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      close(end);
      end = -1;
    }
  }
  return out_ >= 0 || err_ >= 0;
}

bool RunningProgram::wait_for_output(const std::string& text, std::chrono::seconds limit) {
  const auto deadline = SteadyClock::now() + limit;
  while (result_.out.find(text) == std::string::npos) {
    if (SteadyClock::now() >= deadline || !read_some(std::chrono::milliseconds(50)))
      return result_.out.find(text) != std::string::npos;
  }
  return true;
}

ProgramResult RunningProgram::wait() {
  const auto deadline = SteadyClock::now() + options_.limit;
  int status = 0;
  bool open = true;
  while (!ended_) {
    if (open) open = read_some(std::chrono::milliseconds(20));
    // A program that leaves daemons behind may leave its pipes open in them: its own end is what counts.
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      ended_ = true;
    } else if (SteadyClock::now() >= deadline) {
      kill(pid_, SIGKILL);
      waitpid(pid_, &status, 0);
      ended_ = true;
      result_.status = -1;
      return result_;
    } else if (!open) {
      usleep(2000);
    }
  }
  for (int i = 0; open && i < 100; ++i) {
    const auto before = result_.out.size() + result_.err.size();
    open = read_some(std::chrono::milliseconds(10));
    if (open && result_.out.size() + result_.err.size() == before) break;
  }
  result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result_;
}

ProgramResult run_program(const std::vector<std::string>& argv, const ProgramOptions& options) {
  RunningProgram program(argv, options);
  return program.wait();
}

} // namespace ductl::test
