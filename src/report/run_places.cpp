#include "report/run_places.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "kolo/base/error.h"
#include "report/scalar_tags.h"

namespace kolo {

namespace {

// Every folder with a run's files, from the top down.
struct Found {
  std::vector<RunPlace> runs;           // of kolo
  std::vector<EventFolder> folders;     // that could be read
  std::vector<std::string> unreadable;  // why others could not
};

std::vector<std::filesystem::path> folders_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;  // a folder that can't be listed has no runs for us
  for (std::filesystem::directory_iterator entry(folder, error), none; !error && entry != none;
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_symlink(ignored) && entry->is_directory(ignored))
      folders.push_back(entry->path());
  }
  std::ranges::sort(folders);
  return folders;
}

void search(const std::filesystem::path& folder, int depth, Found& found) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / "history.json", ignored)) {
    found.runs.push_back({folder, folder / "history.json", {}});
    return;  // what lies below belongs to it
  }
  if (const auto files = event_files_in(folder); !files.empty()) {
    try {
      found.folders.push_back(read_event_folder(folder, files));
    } catch (const InputError& error) {
      found.unreadable.push_back(error.what());
    }
  }
  if (depth == deepest_run) return;
  for (const auto& below : folders_in(folder)) search(below, depth + 1, found);
}

// add_scalars("Loss", {"train": ..}) writes the tag "Loss" into a folder Loss_train: "/train".
std::optional<std::string> line_of_add_scalars(const EventFolder& folder) {
  if (folder.scalars.empty()) return std::nullopt;
  std::string prefix = folder.scalars.front().tag;
  std::ranges::replace(prefix, '/', '_');
  prefix += '_';
  const std::string name = folder.path.filename();
  if (!name.starts_with(prefix)) return std::nullopt;
  return name.substr(prefix.size()).insert(0, "/");
}

// The folder of the run that this one belongs to.
std::filesystem::path root_of(EventFolder& folder, const std::filesystem::path& top) {
  folder.part = part_named(folder.path.filename().string());
  if (folder.path == top) return top;
  if (!folder.part.empty()) return folder.path.parent_path();
  if (const auto line = line_of_add_scalars(folder)) {
    folder.added_to_tag = *line;
    return folder.path.parent_path();
  }
  return folder.path;
}

}  // namespace

std::vector<RunPlace> runs_below(const std::filesystem::path& path) {
  auto folder = path.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // it ended with a slash
  Found found;
  search(folder, 0, found);
  if (found.runs.empty() && found.folders.empty() && !found.unreadable.empty())
    throw InputError(found.unreadable.front());
  std::vector<RunPlace> places = std::move(found.runs);
  for (EventFolder& events : found.folders) {
    const auto root = root_of(events, folder);
    auto place = std::ranges::find(places, root, &RunPlace::root);
    if (place == places.end()) place = places.insert(place, RunPlace{root, {}, {}});
    place->folders.push_back(std::move(events));
  }
  // What can't be read of a run's folders is said with the first.
  if (places.size() == 1 && !places[0].folders.empty()) {
    auto& warnings = places[0].folders.front().warnings;
    warnings.insert(warnings.end(), found.unreadable.begin(), found.unreadable.end());
  }
  std::ranges::sort(places, {}, &RunPlace::root);
  return places;
}

}  // namespace kolo
