#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/file.h"
#include "kolo/checkpoint/checkpoint_store.h"

namespace kolo {

// A run's folder on storage of one node, for copies of its state: PLACE/kolo-USER-KEY, where PLACE
// (/dev/shm, a local disk) may be open to all users of the machine. The folder is this user's
// alone (mode 0700), and one that isn't, as somebody else may have laid it there, is neither read
// nor written. One process at a time writes there: it has the file `lock` in it locked (flock), so
// that the folder of a run that lives is known.
//
// Not thread-safe. What goes wrong is an Error: a run can do without such copies.
class LocalFolder {
 public:
  // `key`: the same for all processes of a run, and of no other run; letters, digits and '-'.
  // Touches nothing.
  LocalFolder(const std::filesystem::path& place, std::string_view key);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Keeps one copy; while the next one is written there are two.
  [[nodiscard]] CheckpointStore store() const;

  // Makes the folder where it is not there, and locks it until remove() or the object's end. False:
  // another process writes there, as where nodes share the place. Error: the place is no folder, or
  // one in which others may replace this one; what is there is not this user's alone.
  [[nodiscard]] bool take();

  // Whether it is there and this user's alone, so that it may be read.
  [[nodiscard]] bool is_ours() const;

  // Error when the place has no room for so many bytes; or the machine no memory, where the place
  // is in memory.
  void require_room(std::uint64_t bytes) const;

  // Removes the copies, and the folder unless something else lies in it; nothing where it is not
  // ours. Error: what can't be removed.
  void remove();

  // Removes this user's folders of other runs in the place that nobody writes to and whose last
  // copy is older than that. Returns which they were. What can't be removed stays.
  std::vector<std::filesystem::path> remove_stale(std::chrono::hours age) const;

 private:
  std::filesystem::path place_, path_;
  FileDescriptor lock_;
};

}  // namespace kolo
