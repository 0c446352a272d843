#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/types.h>

#include "kolo/base/file.h"
#include "kolo/run/launch_ranks.h"

namespace kolo {

// Set of CPUs for the kernel, large enough for any number.
[[nodiscard]] std::vector<cpu_set_t> cpu_set_of(std::span<const int> cpus);

// Processes that all threads of `process` have started and not waited for.
[[nodiscard]] std::vector<pid_t> children_of(pid_t process);

struct Pipe {
  FileDescriptor read_end, write_end;

  Pipe();
  // Appends the next piece of what was written to `text`. Returns false at its end, or with errno
  // EAGAIN if nothing has come and the read end doesn't wait.
  bool read(std::string& text) const;
};

struct ChildOptions {
  const FileDescriptor* output = nullptr;  // stdout; null: this process's
  const FileDescriptor* errors = nullptr;  // stderr; null: this process's
  int ignored = 0;                         // signal that it ignores before it listens; 0: none
  int death_signal = SIGTERM;              // sent to it when this process ends
  std::vector<int> cpus;  // of it and its descendants; empty: those of this process
};

// Running child process, in a process group of its own, with an empty stdin. It ends with this
// process; the destructor kills it with its group. Error: it can't be started. A missing program is
// told on its stderr and ends it with status 127.
class Child {
 public:
  explicit Child(const RankCommand& command, const ChildOptions& options = {});
  // Forks, calls the function, and ends with its status. Signals that this process catches have
  // their defaults there.
  Child(const std::function<int()>& body, const ChildOptions& options);
  Child(Child&& other) noexcept
      : process_(std::exchange(other.process_, 0)),
        end_(std::move(other.end_)),
        status_(other.status_),
        was_killed_(other.was_killed_) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  [[nodiscard]] pid_t process() const { return process_; }
  // Descriptor for poll that is readable when the child has ended; -1: the system has none.
  [[nodiscard]] int end() const { return end_.get(); }

  // Signals the child, unless its end has been seen.
  void signal(int signal) const;
  void signal_group(int signal) const;

  // Waits for its end. Returns its exit status, or 128 + the signal that ended it.
  int wait();
  // The status if it has ended. Doesn't wait.
  [[nodiscard]] std::optional<int> ended();
  // The status that wait() or ended() has found.
  [[nodiscard]] const std::optional<int>& status() const { return status_; }
  // Tells whether a signal ended it, rather than a status that tells of another process's signal.
  [[nodiscard]] bool was_killed() const { return was_killed_; }

 private:
  void note_end(int status);

  pid_t process_ = 0;
  FileDescriptor end_;
  std::optional<int> status_;
  bool was_killed_ = false;
};

// End and output of a short helper program.
struct ProbeResult {
  std::optional<int> status;  // none: it could not be started or took too long
  std::string output;         // stdout
  std::string errors;         // stderr
};

// Runs a program, and kills it with its process group after a deadline.
[[nodiscard]] ProbeResult probe(const RankCommand& command, std::chrono::milliseconds deadline);

}  // namespace kolo
