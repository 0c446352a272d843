#pragma once

#include <filesystem>
#include <functional>

#include "kolo/base/file.h"

namespace kolo {

// The right to change a folder, for one process at a time; waits for it. It is a lock on a file in
// the folder, which goes with the process, however that ends.
class FetchLock {
 public:
  // `wait` is called when it has to wait.
  FetchLock(const std::filesystem::path& folder, const std::function<void()>& wait);
  FetchLock(const FetchLock&) = delete;
  FetchLock& operator=(const FetchLock&) = delete;
  ~FetchLock();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

}  // namespace kolo
