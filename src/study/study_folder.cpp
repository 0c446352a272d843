#include "study/study_folder.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/observe/format.h"
#include "kolo/report/report.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// The same run: what differs otherwise is what has become of it.
bool is_same_point(const StudyPoint& one, const StudyPoint& other) {
  return one.ranks == other.ranks && one.lr_scaling == other.lr_scaling &&
         one.warmup_epochs == other.warmup_epochs;
}

const StudyPoint* find(const Study& study, const StudyPoint& wanted) {
  const auto found = std::ranges::find_if(
      study.points, [&](const StudyPoint& point) { return is_same_point(point, wanted); });
  return found == study.points.end() ? nullptr : &*found;
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& reason) {
  throw InputError(
      fmt::format("study in {}: {}; choose another folder with --output DIR, or move this one away",
                  folder.string(), reason));
}

// What a study would write over.
void require_nothing_of_others(const StudyFolder& folder, const std::string& configuration) {
  for (const auto& file : {folder.config(), folder.table(), folder.report()}) {
    if (!fs::exists(file)) continue;
    // A study that was stopped before it began has left its configuration.
    if (file == folder.config() && read_text_file(file) == configuration) continue;
    refuse(folder.path, fmt::format("it holds {}, and no study", file.filename().string()));
  }
}

}  // namespace

void StudyFolder::require_same(const Study& study, const std::string& configuration) const {
  RunFolder{path}.require_writable();
  if (!fs::exists(study_file())) {
    if (RunFolder{path}.holds_a_run()) refuse(path, "the folder holds a run of kolo train");
    require_nothing_of_others(*this, configuration);
    return;
  }
  const Study earlier = Study::read(study_file());
  if (earlier.scaling != study.scaling)
    refuse(path, fmt::format("its scaling is {}, not {}", earlier.scaling, study.scaling));
  if (earlier.settings != study.settings || earlier.threads != study.threads ||
      read_text_file(config()) != configuration)
    refuse(path, "it was made with other settings, or the configuration has changed since");
  for (const StudyPoint& point : study.points) {
    const StudyPoint* const same = find(earlier, point);
    if (same != nullptr && same->batch_size != point.batch_size)
      refuse(path, fmt::format("its run on {} ranks has batches of {} per rank, not {}",
                               point.ranks, same->batch_size, point.batch_size));
  }
}

int StudyFolder::threads() const {
  return fs::exists(study_file()) ? Study::read(study_file()).threads : 0;
}

std::unique_ptr<FolderLock> StudyFolder::lock() const {
  fs::create_directories(path);
  try {
    return std::make_unique<FolderLock>(
        path,
        FolderLockOptions{.job = describe_job(),
                          .advice = "; wait for it, or choose another folder with --output DIR"});
  } catch (const InputError& error) {
    throw InputError(fmt::format("study in {}", error.what()));
  }
}

Study StudyFolder::open(const Study& study, const std::string& configuration) const {
  require_same(study, configuration);
  fs::create_directories(path);
  if (!fs::exists(study_file())) {
    write_file_atomically(config(), configuration);
    return study;
  }
  Study merged = Study::read(study_file());
  std::erase_if(merged.points, [](const StudyPoint& point) {
    return point.state == StudyPointState::predicted;  // they are made anew
  });
  for (const StudyPoint& point : study.points)
    if (find(merged, point) == nullptr) merged.points.push_back(point);
  std::ranges::stable_sort(merged.points, {}, &StudyPoint::ranks);
  return merged;
}

void StudyFolder::collect(Study& study) const {
  for (StudyPoint& point : study.points) {
    if (point.folder.empty()) continue;
    const RunFolder folder = run(point);
    if (!fs::exists(folder.history())) continue;
    const History history = History::read(folder.history());
    point.results = results_of(history);
    if (history.summary().empty()) continue;
    point.state = StudyPointState::done;
    point.problem.clear();
  }
}

void StudyFolder::write(Study& study) const {
  fill_in_efficiency(study);
  study.write(study_file());
  write_file_atomically(table(), study.to_csv());
}

void StudyFolder::write_report() const {
  const auto data = report_data(read_report(std::span(&path, 1)), format_moment(wall_time()));
  write_file_atomically(report(), report_page(data));
}

}  // namespace kolo
