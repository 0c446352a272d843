#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kolo {

// Troubles that a launcher's standard error tells of, by the launcher's names of hosts: in messages
// of Open MPI's mpirun, MPICH's mpiexec, Slurm's srun and PALS' mpiexec.
struct HostsInTrouble {
  // Hosts whose daemon, or which themselves, are gone.
  std::set<std::string> lost;
  // Host of the first rank that was ended from outside, by SIGKILL or the like and not by its own
  // crash; launchers then end the others in the same way.
  std::string rank_killed;
  // The launcher could not start the program: the status is the launcher's own.
  bool has_not_started = false;
};

// Filters a job's standard error: takes out mpirun's boxes (between two lines of dashes) that only
// repeat that a rank has failed, and lines that count such boxes. A box that names a killed rank
// stays where no rank has said anything, unless the job was asked to stop.
class LauncherOutput {
 public:
  // Takes the next piece of text, and returns the text to show. Holds a line back until it is
  // complete, a box until it is closed.
  [[nodiscard]] std::string filter(std::string_view text);

  // Ends the text, and returns the rest.
  [[nodiscard]] std::string finish();

  // Tells that the job was asked to stop, by which ranks may die.
  void expect_signals() { knows_why_ = true; }

  // True while nothing but warnings of kolo's was shown.
  [[nodiscard]] bool was_silent() const { return was_silent_; }

  // True if a rank has said why the job ends, or the job was asked to stop.
  [[nodiscard]] bool knows_why() const { return knows_why_; }

  // Last box that was taken out, in one line; empty: none was.
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

// True for signals by which a program crashes.
[[nodiscard]] bool is_crash(int signal);

}  // namespace kolo
