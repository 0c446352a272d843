#include "kolo/fetch/fetch.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "fetch/file_transfer.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// The right to change a folder, for one process at a time; waits for it. It is a lock on a file in
// the folder, which goes with the process, however that ends.
class FetchLock {
 public:
  // `wait` is called when it has to wait.
  FetchLock(const fs::path& folder, const std::function<void()>& wait);
  FetchLock(const FetchLock&) = delete;
  FetchLock& operator=(const FetchLock&) = delete;
  ~FetchLock();

 private:
  fs::path path_;
  FileDescriptor file_;
};

[[noreturn]] void fail_to_lock(const fs::path& path) {
  throw Error(system_error_text(fmt::format("fetch: cannot lock {}", path.string()), errno));
}

bool try_lock(const FileDescriptor& file, const fs::path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) fail_to_lock(path);
  return false;
}

void lock(const FileDescriptor& file, const fs::path& path) {
  while (::flock(file.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail_to_lock(path);
  }
}

// The last owner removes the file: who waited for that one has to try again.
bool is_at(const FileDescriptor& file, const fs::path& path) {
  struct stat opened {
  }, found{};
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

FetchLock::FetchLock(const fs::path& folder, const std::function<void()>& wait)
    : path_(folder / ".fetch.lock") {
  do {
    file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file_.is_open()) fail_to_lock(path_);
    if (try_lock(file_, path_)) continue;
    wait();
    lock(file_, path_);
  } while (!is_at(file_, path_));
}

FetchLock::~FetchLock() {
  std::error_code ignored;  // an empty file that stays does no harm
  fs::remove(path_, ignored);
}

bool is_file_of(const fs::path& path, std::int64_t bytes) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return !error && std::cmp_equal(size, bytes);
}

// Files get their names only when they are whole.
bool is_complete(const RemoteDataset& dataset, const fs::path& folder) {
  std::error_code error;
  if (dataset.archive_folder.empty()) {
    return std::ranges::all_of(dataset.files, [&](const RemoteFile& file) {
      return is_file_of(folder / file.name, file.bytes);
    });
  }
  return std::ranges::all_of(dataset.members, [&](const std::string& member) {
    return fs::is_regular_file(folder / dataset.archive_folder / member, error);
  });
}

std::string address_of(const RemoteDataset& dataset, const FetchOptions& options,
                       const RemoteFile& file) {
  const auto& base = options.url.empty() ? dataset.url : options.url;
  return base + (base.ends_with('/') ? "" : "/") + file.name;
}

// Returns the bytes that came.
std::int64_t fetch_file(const RemoteFile& file, const std::string& url,
                        const FetchOptions& options) {
  const auto whole = options.folder / file.name;
  if (is_file_of(whole, file.bytes)) return 0;
  const fs::path part = whole.string() + ".part";
  const Download request{.url = url,
                         .file = part,
                         .bytes = file.bytes,
                         .progress =
                             [&](std::int64_t done) {
                               if (options.progress) {
                                 options.progress({file.name, done, file.bytes});
                               }
                             },
                         .notice = options.notice,
                         .pause = options.pause};
  std::error_code error;
  const bool was_begun = fs::exists(part, error);
  auto received = download(request);
  auto sum = md5_of_file(part);
  if (sum != file.md5 && was_begun) {
    if (options.notice) {
      options.notice(
          fmt::format("{} does not fit its beginning from before; once more", file.name));
    }
    fs::remove(part);
    received += download(request);
    sum = md5_of_file(part);
  }
  if (sum != file.md5) {
    fs::remove(part);
    throw Error(fmt::format(
        "fetch: {} has the MD5 sum {}, expected {}: it is another file or was damaged on the way, "
        "and was not kept; try again, or name another place with --url",
        url, sum, file.md5));
  }
  flush_to_disk(part);
  rename_durably(part, whole);
  return received;
}

void unpack_archives(const RemoteDataset& dataset, const fs::path& folder) {
  const std::vector<std::string_view> members(dataset.members.begin(), dataset.members.end());
  AtomicFolder output(folder / dataset.archive_folder, members);
  for (const auto& file : dataset.files) {
    unpack(folder / file.name, dataset.archive_folder, output.aside());
  }
  for (const auto& member : dataset.members) {
    if (fs::is_regular_file(output.aside() / member)) continue;
    throw Error(fmt::format("fetch: no {} came with {}", member, dataset.name));
  }
  output.commit();
  for (const auto& file : dataset.files) fs::remove(folder / file.name);
}

// Makes a folder with those around it. Those that it made and that are still empty go again with
// it, unless they are wanted: where nothing could be fetched, nothing is left.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& folder) {
    std::error_code error;
    auto missing = fs::absolute(folder).lexically_normal();
    if (!missing.has_filename()) missing = missing.parent_path();
    for (; !fs::exists(missing, error) && missing.has_relative_path();
         missing = missing.parent_path())
      made_.push_back(missing);
    fs::create_directories(folder, error);
    if (!fs::is_directory(folder)) {
      throw InputError(
          fmt::format("fetch: cannot make the folder {}: {}", folder.string(), error.message()));
    }
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code not_empty;
    for (const auto& folder : made_)
      if (!fs::remove(folder, not_empty)) return;
  }

 private:
  std::vector<fs::path> made_;  // the innermost first
};

void fetch_files(const RemoteDataset& dataset, const FetchOptions& options, FetchResult& result) {
  const FetchLock lock(options.folder, [&] {
    if (!options.notice) return;
    options.notice(fmt::format("another process is fetching into {}; waiting for it",
                               options.folder.string()));
  });
  result.was_there = is_complete(dataset, options.folder);
  if (result.was_there) return;
  for (const auto& file : dataset.files) {
    const auto received = fetch_file(file, address_of(dataset, options, file), options);
    result.bytes_fetched = checked_add(result.bytes_fetched, received);
  }
  if (!dataset.archive_folder.empty()) unpack_archives(dataset, options.folder);
}

}  // namespace

std::vector<RemoteDataset> remote_datasets() {
  return {
      {.name = "mnist",
       .url = "https://ossci-datasets.s3.amazonaws.com/mnist",
       .files = {{"train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422},
                 {"train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28881},
                 {"t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1648877},
                 {"t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4542}},
       .instead =
           "without a network, apt install dataset-fashion-mnist and data.name=fashion_mnist"},
      {.name = "fashion-mnist",
       .url = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
       .files = {{"train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880},
                 {"train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29515},
                 {"t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4422102},
                 {"t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5148}},
       .instead = "without a network, Debian's package has it: apt install dataset-fashion-mnist"},
      {.name = "cifar10",
       .url = "https://www.cs.toronto.edu/~kriz",
       .files = {{"cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170052171}},
       .archive_folder = "cifar-10-batches-bin",
       .members = {"batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                   "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"},
       .instead =
           "without a network, kolo data cifar10 --from fashion-mnist -o data/cifar10 makes a "
           "stand-in"},
  };
}

RemoteDataset remote_dataset(std::string_view name) {
  const auto all = remote_datasets();
  const auto found = std::ranges::find(all, name, &RemoteDataset::name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const auto& dataset : all) names.push_back(dataset.name);
  throw InputError(
      fmt::format("fetch: no data set \"{}\" is known; expected one of {}", name, join(names)));
}

FetchResult fetch_dataset(const RemoteDataset& dataset, const FetchOptions& options) {
  FetchResult result{.folder = options.folder / dataset.archive_folder};
  if (dataset.archive_folder.empty()) result.folder = options.folder;
  result.was_there = is_complete(dataset, options.folder);
  if (result.was_there) return result;
  const NewFolder folder(options.folder);
  try {
    fetch_files(dataset, options, result);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw Error(
        fmt::format("{}{}{}", error.what(), dataset.instead.empty() ? "" : "; ", dataset.instead));
  }
  return result;
}

}  // namespace kolo
