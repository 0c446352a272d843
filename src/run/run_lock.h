#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/base/folder_lock.h"
#include "run/run_folder.h"

namespace kolo {

// Lock that keeps a run's folder for one run. The launcher holds it, if kolo has started the ranks,
// and rank 0, which writes there, so that a next run waits for ranks that outlive their launcher
// for a moment. The first holder moves an earlier run's folder aside.
class RunLock {
 public:
  // InputError: the folder is in use; says by whom. `starts_anew` makes a folder without a run (see
  // RunFolder::move_aside); otherwise its run is continued.
  [[nodiscard]] static RunLock of_launcher(const RunFolder& folder, bool starts_anew);
  [[nodiscard]] static RunLock of_rank_0(const RunFolder& folder, bool starts_anew);

  RunLock(RunLock&&) noexcept = default;
  RunLock& operator=(RunLock&&) noexcept = default;
  // Restores the folder where no rank has begun a run: an earlier run gets its name again.
  ~RunLock();

  // InputError when somebody holds the folder.
  static void require_free(const RunFolder& folder);

  // New name of an earlier run's folder, and a line that says it, or nothing.
  [[nodiscard]] const std::optional<std::filesystem::path>& moved() const { return moved_; }
  [[nodiscard]] std::string describe_move() const;

  // Files of the process that starts a run or a study, and of the one that writes.
  static constexpr std::array<const char*, 2> file_names{".kolo.lock", ".kolo-rank0.lock"};

  // Variable and value by which a launcher tells its ranks that the folder is theirs.
  static constexpr const char* variable = "KOLO_RUN_LOCK";
  [[nodiscard]] const std::string& token() const { return starter_->token(); }

  // Called in forked ranks, which otherwise would hold the launcher's lock after it was killed.
  void leave_to_launcher() { starter_->leave_to_parent(); }

  // False once the folder was removed, renamed or taken over.
  [[nodiscard]] bool is_held() const;

  // Notes the steps done, for the launcher (last_rank_0()). Rank 0 calls it.
  void note_step(std::int64_t step) { writer_->note(step); }
  // Error unless is_held(). Rank 0 calls it.
  void require_held() const;

  // Lock record of a rank 0 that died holding the folder; `progress` is the last step it noted.
  [[nodiscard]] static std::optional<LockHolder> last_rank_0(const RunFolder& folder);

 private:
  explicit RunLock(RunFolder folder) : folder_(std::move(folder)) {}
  void start(bool starts_anew);
  void restore_folder();
  void give_name_back();

  RunFolder folder_;
  std::unique_ptr<FolderLock> starter_, writer_;
  std::optional<std::filesystem::path> moved_;
  std::vector<std::filesystem::path> new_;  // the folder, and those around it, that weren't there
  bool is_marked_here_ = false;             // it was new or empty
};

}  // namespace kolo
