#include "run/runs_beside.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

struct Found {
  fs::path path;
  std::string job;  // empty: none
  std::int64_t step = 0;
  double time = 0;  // of its newest checkpoint
};

// "results/hello" of "results/hello-7" in job 7.
std::string without_job(const fs::path& folder, const std::string& job) {
  auto text = (folder.has_filename() ? folder : folder.parent_path()).string();
  const auto end = "-" + job;
  if (!job.empty() && text.ends_with(end)) text.resize(text.size() - end.size());
  return text;
}

// What job_number() gives: "12", "12_3", "12[3]".
bool is_job(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9' &&
         text.find_first_not_of("0123456789_[]") == std::string_view::npos;
}

// The job that the folder of this name would be of, "" for none; nothing: of another configuration.
std::optional<std::string> job_of(std::string_view name, std::string_view base) {
  if (!name.starts_with(base)) return std::nullopt;
  name.remove_prefix(base.size());
  if (name.empty()) return std::string();
  if (name.front() != '-' || !is_job(name.substr(1))) return std::nullopt;
  return std::string(name.substr(1));
}

double time_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<double>(status.st_mtime) : 0;
}

std::vector<Found> runs_of(const fs::path& base, const RunFolder& but) {
  std::vector<Found> runs;
  const auto beside = base.has_parent_path() ? base.parent_path() : fs::path(".");
  std::error_code error;  // what can't be looked into has no runs that could be named
  for (fs::directory_iterator entry(beside, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto job = job_of(entry->path().filename().string(), base.filename().string());
    if (!job || fs::equivalent(entry->path(), but.path, error)) continue;
    const RunFolder folder{base.parent_path() / entry->path().filename()};
    const auto checkpoints = folder.checkpoint_store().list();
    if (checkpoints.empty()) continue;
    const auto& newest = checkpoints.front();
    runs.push_back({folder.path, *job, newest.step, time_of(newest.path / "manifest.json")});
  }
  std::ranges::sort(runs, [](const Found& a, const Found& b) {
    return a.time != b.time ? a.time > b.time : a.path > b.path;
  });
  return runs;
}

}  // namespace

std::string describe_runs_beside(const RunFolder& folder, const std::string& job) {
  constexpr std::size_t most_named = 5;
  const auto runs = runs_of(without_job(folder.path, job), folder);
  if (runs.empty()) return {};
  std::string text = "runs of the same configuration are in the folders beside it:";
  for (const auto& run : std::span(runs).first(std::min(runs.size(), most_named))) {
    text += fmt::format("\n  {}: {}, step {}, {}", run.path.string(),
                        run.job.empty() ? "of no job" : "job " + run.job, run.step,
                        format_moment(run.time));
  }
  if (runs.size() > most_named)
    text += fmt::format("\n  and {} that were written to before", runs.size() - most_named);
  return text +
         fmt::format("\nGo on with one of them: --resume --output {}", runs.front().path.string());
}

}  // namespace kolo
