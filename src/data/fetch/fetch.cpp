#include "kolo/data/fetch.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/fetch/download.h"
#include "data/fetch/fetch_lock.h"
#include "data/fetch/md5.h"
#include "data/fetch/unpack.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/folder.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

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
