#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kolo/base/file.h"

namespace kolo {

// Holder of a folder's lock, as the lock file says.
struct LockHolder {
  std::string host;
  std::int64_t process = 0;
  std::string job;                       // of a scheduler; empty: none
  double since = 0;                      // seconds since 1970
  std::string token;                     // of this lock and no other
  std::optional<std::int64_t> progress;  // what the holder noted last
  // Lock file, where the file system has no flock: whether the holder lives can't be told then.
  std::filesystem::path file;

  // "process 1234 on n1 (Slurm job 12), since 2026-11-22 13:40:12"; without flock also how to
  // remove the lock of a process that has ended.
  [[nodiscard]] std::string describe() const;
};

struct FolderLockOptions {
  std::string name = ".kolo.lock";  // of the lock file
  std::string job = {};             // the scheduler's, for the message
  std::string advice = {};          // what to do when another process holds it
  // Time to wait for the end of a holder before giving up; not 0, because looking for a living
  // holder locks the file for a moment.
  std::chrono::milliseconds wait{200};
  // The holder before is known to have ended: without flock its file is replaced.
  bool replaces_file = false;
  // Is told when it takes long to wait for a holder.
  std::function<void(const std::string&)> say = [](const std::string&) {};
  FlockCall flock = system_flock;
};

// Keeps a folder for one process, as long as it lives, by a file that says who that is, locked with
// flock. The destructor removes the file; after an exception, as after a crash, it stays for
// last_holder() to read.
//
// On file systems without flock (some parallel ones) the file itself is the lock: one process alone
// can make it. A process that is killed leaves it, and the next one is told to remove it.
class FolderLock {
 public:
  // Takes the lock of an existing folder. InputError when another process holds it: who, and since
  // when. Error: the file can't be made.
  explicit FolderLock(const std::filesystem::path& folder, FolderLockOptions options = {});
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  // False once the file is not this lock's any more: folder or file were removed, and another
  // process may have taken the folder. Then nothing may be written there.
  [[nodiscard]] bool is_held() const;

  // Leaves the lock to the process that this one was forked from; the destructor removes nothing.
  void leave_to_parent() { file_ = FileDescriptor(); }

  // The folder has another name now.
  void follow(const std::filesystem::path& folder);

  // Writes the holder's progress down for later ones. A failure is no harm.
  void note(std::int64_t progress);

  [[nodiscard]] const std::string& token() const { return me_.token; }

  // Holder that has the folder's lock, or had it last and did not give it back; nothing: nobody.
  [[nodiscard]] static std::optional<LockHolder> last_holder(const std::filesystem::path& folder,
                                                             const std::string& name);
  // Holder that has it now; without flock the one that the file names. Takes no lock.
  [[nodiscard]] static std::optional<LockHolder> living_holder(const std::filesystem::path& folder,
                                                               const std::string& name,
                                                               FlockCall flock = system_flock);

 private:
  [[nodiscard]] std::optional<LockHolder> try_to_take();
  void take_made(FileDescriptor file);

  FolderLockOptions options_;
  std::filesystem::path path_;
  FileDescriptor file_;
  LockHolder me_;
  bool has_flock_ = true;
  int exceptions_;  // under way when it was taken
};

}  // namespace kolo
