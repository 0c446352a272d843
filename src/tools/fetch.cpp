#include "kolo/tools/data_sets.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <set>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/folder_lock.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// 0 where there is no file.
std::int64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : narrow<std::int64_t>(size);
}

// A file that has its name is whole: it gets the name last.
bool is_complete(const RemoteDataset& dataset, const fs::path& folder) {
  std::error_code error;
  if (dataset.archive_folder.empty()) {
    return std::ranges::all_of(dataset.files, [&](const RemoteFile& file) {
      return size_of(folder / file.name) == file.bytes;
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

// Exit status of a program, and its stdout; its stderr is this process's.
struct ProgramEnd {
  int status = 0;
  std::string output;
};

// Runs a program in a shell; `arguments` are as the shell takes them.
ProgramEnd run_program(const std::string& program, const std::string& arguments) {
  FILE* const pipe = ::popen((program + " " + arguments).c_str(), "re");
  if (pipe == nullptr) throw Error(system_error_text("fetch: cannot run " + program, errno));
  ProgramEnd end;
  for (int letter = std::fgetc(pipe); letter != EOF; letter = std::fgetc(pipe))
    end.output += static_cast<char>(letter);
  const int status = ::pclose(pipe);
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  constexpr int not_found = 127;
  if (end.status == not_found)
    throw InputError(fmt::format(
        "fetch: there is no {} in PATH; install it, or get the files otherwise", program));
  return end;
}

// Runs curl(1) from the file's end on, with a bar on a terminal. Its output is the reason of a
// failure. Brackets and braces belong to the address (--globoff).
ProgramEnd run_curl(const std::string& url, const fs::path& part, std::int64_t bytes) {
  return run_program(
      "curl",
      fmt::format("{} --fail --location --proto =http,https,file --proto-redir =http,https "
                  "--connect-timeout 30 --speed-limit 100 --speed-time 60 --retry 3 "
                  "--max-filesize {} --write-out '%{{errormsg}}' --continue-at - --output {} "
                  "--globoff --url {}",
                  ::isatty(STDERR_FILENO) == 1 ? "--progress-bar" : "--silent", bytes,
                  shell_word(part.string()), shell_word(url)));
}

[[noreturn]] void fail(const std::string& url, const ProgramEnd& end) {
  constexpr int unsupported = 1, malformed = 3, too_large = 63;
  if (end.status == unsupported || end.status == malformed)
    throw InputError(
        fmt::format("fetch: {} is no address: {}; expected http://..., https://... or file://...",
                    url, end.output));
  const auto reason = end.status == too_large ? "it is longer than expected"
                      : end.output.empty()    ? fmt::format("curl ended with status {}", end.status)
                                              : end.output;
  throw Error(
      fmt::format("fetch: cannot get {}: {}; check the network, or name another place with --url",
                  url, reason));
}

// Tells whether the connection broke, so that another try may succeed.
bool may_pass(int status) {
  return std::set{16, 18, 28, 52, 55, 56, 92}.contains(status);
}

// Tells whether the server can't continue in the middle: it knows no ranges, sends the whole file,
// or has less than is here already, which curl takes for success.
bool refuses_range(int status) {
  return std::set{0, 33, 36, 63}.contains(status);
}

// Downloads the rest of the file; resumes after a cut connection as long as more comes. Returns the
// number of bytes that came.
std::int64_t download(const std::string& url, const fs::path& part, std::int64_t bytes,
                      const FetchOptions& options) {
  if (size_of(part) > bytes) fs::remove(part);
  std::int64_t received = 0;
  while (size_of(part) < bytes) {
    const auto before = size_of(part);
    const auto end = run_curl(url, part, bytes);
    const auto now = size_of(part);
    received += std::max<std::int64_t>(0, now - before);
    if (end.status == 0 && now == bytes) break;
    if (may_pass(end.status) && now > before) {
      options.notice(fmt::format("{}; going on", end.output));
      continue;
    }
    const bool begins_anew = before > 0 && refuses_range(end.status);
    if (begins_anew || now == 0 || end.status == 0) fs::remove(part);
    if (begins_anew) continue;
    if (end.status == 0)
      throw Error(fmt::format("fetch: {} has not the {} bytes expected", url, bytes));
    fail(url, end);
  }
  return received;
}

// Fetches a file unless it is there. Returns the number of bytes that came.
std::int64_t fetch_file(const RemoteFile& file, const std::string& url,
                        const FetchOptions& options) {
  const auto whole = options.folder / file.name;
  if (size_of(whole) == file.bytes) return 0;
  const fs::path part = whole.string() + ".part";
  options.notice(fmt::format("{}:", file.name));
  const auto received = download(url, part, file.bytes, options);
  if (const auto sum = md5_of_file(part); sum != file.md5) {
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

// Unpacks the members, and nothing else that may be in the archive.
void unpack_archive(const RemoteDataset& dataset, const fs::path& folder) {
  const auto archive = folder / dataset.files.front().name;
  const std::vector<std::string_view> names(dataset.members.begin(), dataset.members.end());
  AtomicFolder output(folder / dataset.archive_folder, names);
  // Absolute, because tar takes what precedes a colon for a host.
  auto arguments =
      fmt::format("-xzf {} -C {} --no-same-owner --strip-components=1",
                  shell_word(fs::absolute(archive).string()), shell_word(output.aside().string()));
  for (const auto& member : dataset.members)
    arguments += fmt::format(" {}", shell_word(dataset.archive_folder + "/" + member));
  const auto end = run_program("tar", arguments);
  for (const auto& member : dataset.members) {
    if (fs::is_regular_file(fs::symlink_status(output.aside() / member))) continue;
    throw Error(fmt::format("fetch: no {} came with {}", member, dataset.name));
  }
  if (end.status != 0)  // members may be cut short; tar has said why
    throw Error(fmt::format("fetch: tar cannot unpack {}", archive.string()));
  output.commit();
  fs::remove(archive);
}

void fetch_files(const RemoteDataset& dataset, const FetchOptions& options, FetchResult& result) {
  result.was_there = is_complete(dataset, options.folder);
  if (result.was_there) return;
  for (const auto& file : dataset.files) {
    const auto received = fetch_file(file, address_of(dataset, options, file), options);
    result.bytes_fetched = checked_add(result.bytes_fetched, received);
  }
  if (!dataset.archive_folder.empty()) unpack_archive(dataset, options.folder);
}

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

}  // namespace

std::string md5_of_file(const fs::path& path) {
  constexpr std::size_t digits = 32;
  const auto sum = run_program("md5sum", fmt::format("<{}", shell_word(path.string())));
  if (sum.status != 0 || sum.output.size() < digits)
    throw Error(fmt::format("fetch: md5sum can't read {}", path.string()));
  return sum.output.substr(0, digits);
}

std::vector<std::string> remote_dataset_names() {
  std::vector<std::string> names;
  for (const auto& dataset : remote_datasets()) names.push_back(dataset.name);
  return names;
}

RemoteDataset remote_dataset(std::string_view name) {
  const auto all = remote_datasets();
  const auto found = std::ranges::find(all, name, &RemoteDataset::name);
  if (found != all.end()) return *found;
  throw InputError(fmt::format("fetch: no data set \"{}\" is known; expected one of {}", name,
                               join(remote_dataset_names())));
}

FetchResult fetch_dataset(const RemoteDataset& dataset, const FetchOptions& options) {
  FetchResult result{.folder = options.folder};
  if (!dataset.archive_folder.empty()) result.folder /= dataset.archive_folder;
  result.was_there = is_complete(dataset, options.folder);
  if (result.was_there) return result;
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (!fs::is_directory(options.folder)) {
    throw InputError(fmt::format("fetch: cannot make the folder {}: {}", options.folder.string(),
                                 error.message()));
  }
  try {
    std::exception_ptr problem;
    {
      const FolderLock lock(
          options.folder,
          {.name = ".fetch.lock", .wait = std::chrono::hours(24), .say = options.notice});
      try {
        fetch_files(dataset, options, result);
      } catch (...) {  // out of the lock's scope, which would keep its file for an exception
        problem = std::current_exception();
      }
    }
    if (problem) std::rethrow_exception(problem);
  } catch (const Error& problem) {
    if (dynamic_cast<const InputError*>(&problem) != nullptr || dataset.instead.empty()) throw;
    throw Error(fmt::format("{}; {}", problem.what(), dataset.instead));
  }
  return result;
}

}  // namespace kolo
