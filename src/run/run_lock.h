#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "kolo/base/folder_lock.h"
#include "run/run_folder.h"

namespace kolo {

// Keeps a run's folder for one run. Two processes hold it: the launcher, or rank 0 where kolo has
// not started the ranks; and rank 0, which writes there, so that ranks that outlive their launcher
// for a moment are waited for. Who holds it first moves an earlier run's folder aside.
class RunLock {
 public:
  // InputError, which says who has the folder: it is in use. `starts_anew`: makes the folder, empty
  // of runs (see RunFolder::move_aside); otherwise it goes on with what is there.
  [[nodiscard]] static RunLock of_launcher(const RunFolder& folder, bool starts_anew);
  [[nodiscard]] static RunLock of_rank_0(const RunFolder& folder, bool starts_anew);

  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) noexcept = default;
  // Leaves no trace where no rank has begun a run: the folder is as it was before it was started,
  // and an earlier run has its name again.
  ~RunLock();

  // InputError when somebody holds the folder. Holds nothing.
  static void require_free(const RunFolder& folder);

  // New name of an earlier run's folder.
  [[nodiscard]] const std::optional<std::filesystem::path>& moved() const { return moved_; }

  // The first is held by the process that starts a run, or a study; the second by the one that
  // writes.
  static constexpr std::array<const char*, 2> file_names{".kolo.lock", ".kolo-rank0.lock"};

  // Variable and value that tell the ranks of this launcher that the folder is theirs.
  static constexpr const char* variable = "KOLO_RUN_LOCK";
  [[nodiscard]] const std::string& token() const { return starter_->token(); }

  // Called in a rank that the launcher has forked: without it the rank, too, would keep the folder
  // for the launcher, also when that is killed.
  void leave_to_launcher() { starter_->leave_to_parent(); }

  // False when the folder is not this run's any more: it was removed, renamed or taken over.
  [[nodiscard]] bool is_held() const;

  // Notes how many steps are done, for the launcher (last_rank_0()). Rank 0 calls it.
  void note_step(std::int64_t step) { writer_->note(step); }
  // Error unless it is. Rank 0 calls it.
  void require_held() const;

  // Holder that rank 0 left when it could not give the folder back: its progress is the steps it
  // noted.
  [[nodiscard]] static std::optional<LockHolder> last_rank_0(const RunFolder& folder);

 private:
  explicit RunLock(RunFolder folder) : folder_(std::move(folder)) {}
  void start(bool starts_anew);
  void restore_folder();
  void give_name_back();

  RunFolder folder_;
  std::unique_ptr<FolderLock> starter_, writer_;
  std::optional<std::filesystem::path> moved_;
  bool is_new_ = false, is_marked_here_ = false;  // the folder; marked: it was new or empty
};

}  // namespace kolo
