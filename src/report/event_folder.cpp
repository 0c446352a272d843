#include "report/event_folder.h"

#include <algorithm>
#include <system_error>

#include "kolo/base/error.h"

namespace kolo {

std::vector<std::filesystem::path> event_files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;  // a folder that can't be listed has no files for us
  for (std::filesystem::directory_iterator entry(folder, error), none; !error && entry != none;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename().string().find("tfevents") != std::string::npos &&
        entry->is_regular_file(ignored)) {
      files.push_back(entry->path());
    }
  }
  std::ranges::sort(files);
  return files;
}

EventFolder read_event_folder(const std::filesystem::path& folder,
                              std::span<const std::filesystem::path> files) {
  EventFolder result{folder, {}, {}, {}, {}};
  std::vector<EventFile> read;
  for (const auto& file : files) {
    try {
      read.push_back(read_event_file(file));
      if (!read.back().damage.empty()) result.warnings.push_back(read.back().damage);
    } catch (const InputError& error) {
      result.warnings.push_back(error.what());
    }
  }
  if (read.empty() && !result.warnings.empty()) throw InputError(result.warnings.front());
  result.scalars = scalars_in_effect(read);
  return result;
}

}  // namespace kolo
