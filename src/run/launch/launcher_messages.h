#pragma once

#include <set>
#include <string>
#include <string_view>

namespace kolo {

// What a launcher's standard error tells of a job and its hosts, as it calls them. What is read is
// what Open MPI's mpirun, MPICH's mpiexec, Slurm's srun and PALS' mpiexec print without being
// asked; a message that is not known tells nothing.
struct HostsInTrouble {
  // The daemon or the node itself is gone.
  std::set<std::string> lost;
  // A rank there was ended from outside, by SIGKILL or the like; the first one alone, because
  // launchers end the others in the same way. Not by what a program does to itself (SIGSEGV,
  // SIGABRT, ...).
  std::string rank_killed;
  // The launcher could not start the program, so that its status is none of the ranks'.
  bool has_not_started = false;
};

// Reads a launcher's standard error as it comes.
class LauncherMessages {
 public:
  void read(std::string_view text);
  [[nodiscard]] const HostsInTrouble& hosts() const { return hosts_; }

 private:
  void read_line(std::string_view line);

  std::string partial_line_;
  std::string running_at_;  // MPICH names the host a line before the reason
  HostsInTrouble hosts_;
};

// A crash, which is the program's own doing, whoever runs it.
[[nodiscard]] bool is_crash(int signal);

}  // namespace kolo
