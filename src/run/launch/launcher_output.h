#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

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

// Reads a job's standard error as it comes, and takes out of it mpirun's boxes (between two lines
// of dashes) that only repeat that a rank has failed. One that names a killed rank stays where no
// rank has said anything, unless the job was asked to stop. Lines that count such boxes go too; all
// others stay.
class LauncherOutput {
 public:
  // The next piece of text; returns what is to be shown of it. A line is held back until it is
  // complete, a box until it is closed.
  [[nodiscard]] std::string filter(std::string_view text);

  // The end of the text: what is still held back.
  [[nodiscard]] std::string finish();

  // The job was asked to stop: ranks may die of that.
  void expect_signals() { knows_why_ = true; }

  // Whether nothing was shown so far but warnings of kolo's.
  [[nodiscard]] bool was_silent() const { return was_silent_; }

  // Whether a rank has said why the job ends, or it was asked to.
  [[nodiscard]] bool knows_why() const { return knows_why_; }

  // The last box that was taken out, in one line; empty: none was.
  [[nodiscard]] std::string last_words() const;

  [[nodiscard]] const HostsInTrouble& hosts() const { return hosts_; }

 private:
  void look_for_hosts(std::string_view line);
  [[nodiscard]] std::string take_line(std::string line);
  [[nodiscard]] std::string release();
  [[nodiscard]] std::string shown(std::string text);

  bool was_silent_ = true;
  bool knows_why_ = false;  // why a rank may have died of a signal
  std::string partial_line_;
  std::vector<std::string> hidden_;  // the last box that was taken out
  std::vector<std::string> box_;     // from its opening line of dashes on; empty outside
  std::string running_at_;           // MPICH names the host a line before the reason
  HostsInTrouble hosts_;
};

// A crash, which is the program's own doing, whoever runs it.
[[nodiscard]] bool is_crash(int signal);

}  // namespace kolo
