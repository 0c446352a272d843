#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "kolo/base/file.h"

namespace kolo {

// A folder that appears under its name only when it is whole: filled aside, in .NAME.part next to
// it, flushed, renamed by commit(). Without commit() it vanishes; what a killed process leaves of
// it is cleared away by the next one. Two processes never fill the same folder at once.
class AtomicFolder {
 public:
  // `replaceable`: the entries that a folder of that name may hold already, to be replaced as a
  // whole; empty when it must be empty or not be there. InputError when it holds anything else, is
  // no folder, or is being made by another process. Makes the folders above it.
  explicit AtomicFolder(const std::filesystem::path& path,
                        std::span<const std::string_view> replaceable = {});
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  // Where to write until commit().
  [[nodiscard]] const std::filesystem::path& aside() const { return aside_; }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path aside_;
  FileDescriptor lock_;  // of the folder aside
  bool is_committed_ = false;
};

}  // namespace kolo
