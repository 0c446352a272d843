#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/types.h>

#include "kolo/base/file.h"
#include "kolo/run/launch_ranks.h"

namespace kolo {

// CPUs as the kernel's set, however many there are.
[[nodiscard]] std::vector<cpu_set_t> cpu_set_of(std::span<const int> cpus);

// Processes that this one has started, all its threads, and that have not been waited for.
[[nodiscard]] std::vector<pid_t> children_of(pid_t process);

struct Pipe {
  FileDescriptor read_end, write_end;

  Pipe();
};

// What a child has of its own.
struct ChildOptions {
  const FileDescriptor* output = nullptr;  // its stdout; null: this process's
  const FileDescriptor* errors = nullptr;  // its stderr; null: this process's
  int ignored = 0;             // a signal that it does not die of before it listens; 0: none
  int death_signal = SIGTERM;  // that it gets when this process ends
  std::vector<int> cpus;       // that it and all it starts may run on; empty: those of this process
};

// A running child: in a process group of its own, with nothing to read, and ended with this
// process; killed with its group if it is still there at the end. Error: it can't be started. A
// program that isn't there is told of on its stderr, and ends it with status 127.
class Child {
 public:
  explicit Child(const RankCommand& command, const ChildOptions& options = {});
  // A fork that calls the function, and ends with its status. Signals that this process catches
  // work in it as by default.
  Child(const std::function<int()>& body, const ChildOptions& options);
  Child(Child&& other) noexcept
      : process_(std::exchange(other.process_, 0)),
        end_(std::move(other.end_)),
        status_(other.status_),
        was_killed_(other.was_killed_) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  // Its number, also when it has ended.
  [[nodiscard]] pid_t process() const { return process_; }
  // Readable when it has ended (for poll); -1 where the system has no such descriptors.
  [[nodiscard]] int end() const { return end_.get(); }

  // Nothing where its end has been seen.
  void signal(int signal) const;
  // The same to all processes of its group.
  void signal_group(int signal) const;

  // Its exit status, 128 + the signal that ended it; waits for its end.
  int wait();
  // The same where it has ended; nothing where it hasn't.
  [[nodiscard]] std::optional<int> ended();
  // Its status where its end has been seen by one of these.
  [[nodiscard]] const std::optional<int>& status() const { return status_; }
  // Whether it has ended by a signal, and not with a status that says so of another process.
  [[nodiscard]] bool was_killed() const { return was_killed_; }

 private:
  void note_end(int status);

  pid_t process_ = 0;
  FileDescriptor end_;
  std::optional<int> status_;
  bool was_killed_ = false;
};

}  // namespace kolo
