#include "kolo/report/read_runs.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "report/event_curves.h"
#include "report/event_folder.h"
#include "report/read_history.h"
#include "report/run_places.h"

namespace kolo {

namespace {

// A folder's name that tells the run: not "logs", but what it is in.
std::string name_of_folder(const std::filesystem::path& folder) {
  auto path = std::filesystem::absolute(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended with a slash
  const std::string name = path.filename();
  const bool is_everybodys = name == "logs" || name == "tensorboard";
  return is_everybodys && path.parent_path().has_filename() ? path.parent_path().filename()
                                                            : path.filename();
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
  if (run.curves.empty()) run.warnings.push_back("there are no scalars yet");
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
