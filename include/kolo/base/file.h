#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace kolo {

// An owned POSIX file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  // Closes, and reports errors that come only now (full disk, lost server).
  void close(const std::filesystem::path& path);

 private:
  int descriptor_ = -1;
};

// Opens the closed ones of descriptors 0 to 2 on /dev/null. A program that is started with closed
// streams (by a daemon, cron, `<&- >&- 2>&-`) would give their numbers to the next files that it
// opens, and print into those. What is printed to a stdout that was closed still fails, so that
// programs can tell. Call it before opening any.
void open_standard_streams();

// Writes everything (short writes and EINTR handled); throws Error that names the path.
void write_all(int descriptor, std::span<const std::byte> bytes, const std::filesystem::path& path);

// The same from an offset in the file on, in bytes, which may be beyond its end.
void write_at(int descriptor, std::span<const std::byte> bytes, std::int64_t offset,
              const std::filesystem::path& path);

// Reads at most bytes.size() bytes (short reads and EINTR handled); returns how many there were
// before the end of the file.
[[nodiscard]] std::size_t read_up_to(int descriptor, std::span<std::byte> bytes,
                                     const std::filesystem::path& path);

// Opens a regular file for reading; a folder, pipe or device is an Error that says what it is.
[[nodiscard]] FileDescriptor open_regular_file(const std::filesystem::path& path);

// The same for a file that a user has named: InputError, which begins with the subject ("data").
[[nodiscard]] FileDescriptor open_input_file(const std::filesystem::path& path,
                                             std::string_view subject);

[[nodiscard]] std::int64_t size_in_bytes(const FileDescriptor& file,
                                         const std::filesystem::path& path);

// The system's flock(), or one that stands for it.
using FlockCall = int (*)(int file, int operation);
int system_flock(int file, int operation);

// Locks a file or folder for this process as long as it is open (flock). Returns 0, EWOULDBLOCK if
// another process has the lock, or another error: some file systems know no locks.
[[nodiscard]] int lock_file(const FileDescriptor& file, bool waits = false,
                            FlockCall flock = system_flock);

// Tells whether the path still leads to the open file, which may have been removed or renamed.
[[nodiscard]] bool leads_to(const std::filesystem::path& path, const FileDescriptor& file);

[[nodiscard]] std::string read_text_file(const std::filesystem::path& path);

// Flushes a file's or folder's data to the device (fsync).
void flush_to_disk(const std::filesystem::path& path);

// Renames and flushes the folder that holds the new name, so that the rename survives a crash.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// A file that appears under its name only when it is whole: written aside in the same folder,
// flushed, renamed by commit(). Without commit() it vanishes and an older file of that name stays
// as it was.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path aside_;
  FileDescriptor file_;
  bool is_committed_ = false;
};

// The whole of AtomicFile in one call.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// Name that AtomicFile gives to a file as long as it is not whole: FILE.PROCESS.part.
[[nodiscard]] std::filesystem::path unfinished_file(const std::filesystem::path& file);

// Tells whether a name is that of `file` while it is not whole, of whatever process: one that was
// killed has left it.
[[nodiscard]] bool is_unfinished_file(std::string_view name, std::string_view file);

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

  // Folder to write to until commit().
  [[nodiscard]] const std::filesystem::path& aside() const { return aside_; }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path aside_;
  FileDescriptor lock_;  // of the folder aside
  bool is_committed_ = false;
};

}  // namespace kolo
