#include "kolo/report/run_record.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/report/own_files.h"
#include "report/run_readers.h"

namespace kolo {

const Curve* RunRecord::find(std::string_view quantity, std::string_view part, bool by_step) const {
  const auto curve = std::ranges::find_if(curves, [&](const Curve& candidate) {
    return candidate.quantity == quantity && candidate.part == part && candidate.by_step == by_step;
  });
  return curve == curves.end() ? nullptr : &*curve;
}

namespace {

// The places of the smallest and the largest finite value, in order; the first place when none is
// finite.
std::pair<std::size_t, std::size_t> extremes(std::span<const CurvePoint> points) {
  std::size_t smallest = 0, largest = 0;
  const auto value = [&](std::size_t i) { return points[i].value; };
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (!std::isfinite(value(i))) continue;
    if (!std::isfinite(value(smallest)) || value(i) < value(smallest)) smallest = i;
    if (!std::isfinite(value(largest)) || value(i) > value(largest)) largest = i;
  }
  return std::minmax(smallest, largest);
}

}  // namespace

std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, std::size_t limit) {
  if (points.size() <= limit) return {points.begin(), points.end()};
  const std::size_t stretches = std::max<std::size_t>(1, limit / 2);
  std::vector<CurvePoint> kept;
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto from = i * points.size() / stretches;
    const auto to = (i + 1) * points.size() / stretches;
    const auto [first, second] = extremes(points.subspan(from, to - from));
    kept.push_back(points[from + first]);
    if (second != first) kept.push_back(points[from + second]);
  }
  return kept;
}

namespace fs = std::filesystem;

namespace {

// The last `count` parts of a path, "b/run" of /a/b/run.
std::string end_of(const fs::path& path, std::size_t count) {
  std::vector<fs::path> parts;
  for (const auto& part : path) {
    if (!part.empty() && part != "/" && part != ".") parts.push_back(part);
  }
  fs::path end;
  for (auto i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i)
    end /= parts[i];
  return end.string();
}

bool are_distinct(const std::vector<std::string>& names) {
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

// What to call runs that have the same name.
std::vector<std::string> names_of(const std::vector<RunRecord*>& runs) {
  constexpr std::size_t longest = 6;
  std::vector<std::string> names;
  for (std::size_t count = 2; count <= longest; ++count) {
    names.clear();
    for (const auto* const run : runs)
      names.push_back(end_of(fs::absolute(run->source).lexically_normal(), count));
    if (are_distinct(names)) return names;
  }
  // The same run twice, say.
  names.clear();
  for (std::size_t i = 0; i < runs.size(); ++i)
    names.push_back(i == 0 ? runs[i]->name : fmt::format("{} ({})", runs[i]->name, i + 1));
  return names;
}

}  // namespace

void make_names_distinct(std::vector<RunRecord>& runs) {
  std::map<std::string, std::vector<RunRecord*>> same;
  for (auto& run : runs) same[run.name].push_back(&run);
  for (const auto& [name, these] : same) {
    if (these.size() == 1) continue;
    const auto names = names_of(these);
    for (std::size_t i = 0; i < these.size(); ++i) these[i]->name = names[i];
  }
}

namespace {

// Where a run lies.
struct RunPlace {
  std::filesystem::path root;
  std::filesystem::path history;     // kolo's, or empty: then
  std::vector<EventFolder> folders;  // it has event files
};

inline constexpr int deepest_run = 6;

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

// The runs in a folder and below it, by their paths; links to folders are not followed. Folders
// named train, validation and so on belong to the run that they lie in, as Keras has it, and so do
// those of PyTorch's add_scalars. InputError: the only event files can't be read.
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

// A folder's name that tells the run: not "logs", but what it is in.
std::string name_of_folder(const std::filesystem::path& folder) {
  auto path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended with a slash
  const std::string name = path.filename();
  const bool is_everybodys = name == "logs" || name == "tensorboard";
  return is_everybodys && path.parent_path().has_filename() ? path.parent_path().filename()
                                                            : path.filename();
}

std::string without_scalars(std::span<const EventFolder> folders) {
  std::int64_t others = 0;
  for (const EventFolder& folder : folders) others += folder.other_values;
  if (others == 0) return "there are no scalars yet";
  return fmt::format("there are no scalars, but {} other values (histograms, images, texts)",
                     others);
}

RunRecord read_events(std::span<const EventFolder> folders) {
  RunRecord run;
  run.writer = "event files";
  run.is_finished = true;
  for (const EventFolder& folder : folders)
    run.warnings.insert(run.warnings.end(), folder.warnings.begin(), folder.warnings.end());
  run.curves = curves_of_events(folders, run.warnings);
  // Nobody else writes that. kolo's epoch 0 is the network before training.
  if (run.find("exposed_communication_seconds", "") != nullptr) run.writer = "kolo";
  if (run.curves.empty()) run.warnings.push_back(without_scalars(folders));
  return run;
}

// kolo's folder has event files too: they tell most of it when its history is damaged.
RunRecord read_kolo_folder(const std::filesystem::path& folder) {
  try {
    return read_history(folder / "history.json");
  } catch (const InputError& error) {
    const auto files = event_files_in(folder);
    if (files.empty()) throw;
    const EventFolder events = read_event_folder(folder, files);
    RunRecord run = read_events({&events, 1});
    run.warnings.insert(run.warnings.begin(), error.what());
    return run;
  }
}

// Of a run's folder, in the order of their names. Only what kolo has drawn is shown.
void read_pictures(const std::filesystem::path& folder, RunRecord& run) {
  constexpr std::uintmax_t most_bytes = 4 << 20;
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "pictures", error))
    if (entry.path().extension() == ".png" && is_drawing(entry.path()))
      files.push_back(entry.path());
  std::ranges::sort(files);
  for (const auto& file : files) {
    if (std::filesystem::file_size(file, error) > most_bytes) {
      run.warnings.push_back(fmt::format("{} is too large to be shown", file.string()));
      continue;
    }
    auto png = read_text_file(file);
    const auto caption = png_caption(png);
    run.pictures.push_back({caption, std::move(png)});
  }
}

[[noreturn]] void refuse_several(const std::filesystem::path& folder,
                                 std::span<const RunPlace> places) {
  constexpr std::size_t most_named = 12;
  std::string names;
  for (std::size_t i = 0; i < std::min(places.size(), most_named); ++i)
    names += fmt::format("\n  {}", places[i].root.string());
  if (places.size() > most_named)
    names += fmt::format("\n  and {} more", places.size() - most_named);
  throw InputError(fmt::format("report: {} has {} runs; name those that you want to see:{}",
                               folder.string(), places.size(), names));
}

RunRecord read_folder(const std::filesystem::path& folder) {
  const auto places = runs_below(folder);
  if (places.empty()) {
    throw InputError(fmt::format(
        "report: no run in {}: looked for history.json and for TensorBoard's event files "
        "(*tfevents*), there and up to {} folders below",
        folder.string(), deepest_run));
  }
  if (places.size() > 1) refuse_several(folder, places);
  const RunPlace& place = places.front();
  const bool is_kolos = !place.history.empty();
  RunRecord run = is_kolos ? read_kolo_folder(place.root) : read_events(place.folders);
  run.name = name_of_folder(is_kolos ? place.root : folder);
  if (is_kolos) read_pictures(place.root, run);
  return run;
}

RunRecord read_file(const std::filesystem::path& file) {
  RunRecord run;
  if (file.extension() == ".json") {
    run = read_history(file);
    run.name = name_of_folder(std::filesystem::absolute(file).parent_path());
  } else {
    const EventFolder events = read_event_folder(file.parent_path(), {&file, 1});
    run = read_events({&events, 1});
    run.name = file.filename();
  }
  return run;
}

}  // namespace

RunRecord read_run(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw InputError(fmt::format(
        "report: no run at {}: {}; expected a run's folder, its history.json, or TensorBoard's "
        "event files",
        path.string(), error ? error.message() : "there is nothing"));
  }
  RunRecord run = std::filesystem::is_directory(status) ? read_folder(path) : read_file(path);
  run.source = path;
  return run;
}

}  // namespace kolo
