#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "kolo/base/file.h"

namespace kolo {

// Makes signals readable from a file descriptor, whichever thread gets them (a signalfd misses
// those of threads that libraries start before main()). SIGHUP stays ignored under nohup. At most
// one at a time. The destructor restores the earlier actions.
class SignalPipe {
 public:
  // Signals that are caught. After the first one all have their earlier actions again, so that a
  // second one ends the process even where nobody asks for the first.
  enum class Catching { all, first };

  explicit SignalPipe(std::initializer_list<int> signals, Catching catching = Catching::all);
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;
  ~SignalPipe();

  // Descriptor for poll, readable when a signal has come.
  [[nodiscard]] int descriptor() const { return read_end_.get(); }

  // Next signal, if one has come. Never waits.
  [[nodiscard]] std::optional<int> next();

 private:
  FileDescriptor read_end_, write_end_;
};

// Makes writes to a pipe that nobody reads any more fail, instead of ending this process: a
// training outlives `kolo train | head`. Programs that it starts by Child end as usual.
void outlive_readers();

// Name for people: "SIGTERM", "Ctrl-C (SIGINT)".
[[nodiscard]] std::string describe_signal(int signal);

// Turns SIGINT, SIGTERM, SIGHUP and SIGUSR1 into a question that can be asked. Until begin() a
// signal ends the process at once, with status 75: there is nothing to save yet. After the first
// signal they work as usual again, so that a second one ends the process; except for SIGUSR1 of
// kolo's launcher, which repeats it until it is heard. At most one at a time.
class StopSignal {
 public:
  // Signals whose end of the process before begin() is said on stderr. Launchers send SIGTERM, too,
  // to the ranks of a job in which another has failed.
  enum class Says { nothing, all_but_sigterm, everything };

  explicit StopSignal(Says says);
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();
  void begin();

  // True once a signal has come. Costs a system call.
  [[nodiscard]] bool is_requested();

  // Signal that the user sent, "SIGTERM"; empty before one came, and for SIGUSR1 of kolo's
  // launcher, which says itself what it was sent.
  [[nodiscard]] std::string name() const;

 private:
  std::optional<SignalPipe> signals_;
  std::optional<int> received_;
};

}  // namespace kolo
