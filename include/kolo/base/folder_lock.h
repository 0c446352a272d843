#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kolo/base/file.h"

namespace kolo {

// Who has locked a folder, as its lock file says.
struct LockHolder {
  std::string host;
  std::int64_t process = 0;
  std::string job;                       // of a scheduler; empty: none
  double since = 0;                      // seconds since 1970
  std::string token;                     // of this lock and no other
  std::vector<std::string> ancestors;    // the processes that have started it, and their start
  std::optional<std::int64_t> progress;  // what the holder noted last

  // "process 1234 on n1 (Slurm job 12), since 2026-11-22 13:40:12"
  [[nodiscard]] std::string describe() const;
};

struct FolderLockOptions {
  std::string name = ".kolo.lock";  // of the lock file
  std::string job = {};             // the scheduler's, for the message
  std::string advice = {};          // what to do when another process holds it
  // How often the holder shows that it lives, and after how long without that it is taken for dead
  // where nothing else tells. Long, because one that is suspended shows nothing meanwhile; when it
  // goes on after all, it finds that it has lost the lock (is_held()).
  std::chrono::milliseconds heartbeat{5000};
  std::chrono::milliseconds patience{60000};
  // For how long to wait until a holder ends before giving up. Who looks for a living holder locks
  // the file for a moment, so not at once.
  std::chrono::milliseconds wait{200};
  // The same where the holder has lost one of the processes that started it, as ranks have whose
  // launcher was killed: it is probably about to end.
  std::chrono::milliseconds wait_for_orphan{20000};
  // Is told when it takes long to find out whether a holder lives, or to wait for it.
  std::function<void(const std::string&)> say = [](const std::string&) {};
  // The system's call, which fails on file systems that have none.
  std::function<int(int file, int operation)> flock = system_flock;

  static int system_flock(int file, int operation);
};

// Keeps a folder for one process, as long as it lives: a file in it that says who that is, locked
// with flock. The lock of a process that is gone is taken over, whatever became of it. The
// destructor gives it back and removes the file; after an exception, as after a crash, the file
// stays for last_holder() to read.
//
// Where the file system has no flock (some parallel ones), or one that only holds on its own
// machine, a thread touches the file every few seconds: a holder of this machine is looked for
// among its processes, one of another machine is dead when its file stays as it is for a while.
// That takes up to the patience, and only there.
class FolderLock {
 public:
  // The folder exists. InputError when another process holds it: who, and since when. Error: the
  // file can't be made.
  explicit FolderLock(const std::filesystem::path& folder, FolderLockOptions options = {});
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  // False once the file is not this lock's any more: the folder was removed, or another process
  // has taken this one for dead. Then nothing may be written there.
  [[nodiscard]] bool is_held() const;

  // The folder has another name now.
  void follow(const std::filesystem::path& folder);

  // Writes down how far the holder is, for whoever comes later. A failure is no harm.
  void note(std::int64_t progress);

  [[nodiscard]] const std::string& token() const { return me_.token; }

  // Who has the folder's lock, or had it last and did not give it back; nothing: nobody.
  [[nodiscard]] static std::optional<LockHolder> last_holder(const std::filesystem::path& folder,
                                                             const std::string& name);
  // The holder, when it is certain that it lives, and is no orphan; takes no lock.
  [[nodiscard]] static std::optional<LockHolder> living_holder(const std::filesystem::path& folder,
                                                               const std::string& name);

 private:
  [[nodiscard]] std::optional<LockHolder> try_to_take();
  [[nodiscard]] std::optional<LockHolder> take_with_flock(bool& is_supported);
  [[nodiscard]] std::optional<LockHolder> take_without_flock();
  [[nodiscard]] std::optional<LockHolder> take_made(FileDescriptor file);
  [[nodiscard]] bool is_alive(const LockHolder& holder, bool is_locked_by_nobody) const;
  void write_down(const FileDescriptor& file) const;
  void show_life(const std::stop_token& stop);

  FolderLockOptions options_;
  std::filesystem::path path_;
  FileDescriptor file_;
  LockHolder me_;
  int exceptions_;  // under way when it was taken
  std::condition_variable_any wake_;
  std::mutex wake_mutex_;
  std::jthread life_;  // last: it uses all of the above
};

}  // namespace kolo
