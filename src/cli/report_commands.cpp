// kolo report and timeline: what runs have left, on a page and as one timeline.
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/parallel/merge_timelines.h"
#include "kolo/report/report.h"
#include "kolo/tools/timeline.h"
#include "kolo/train/observe/format.h"
#include "run/launch/terminal.h"
#include "run/run_folder.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

struct ReportArguments {
  std::vector<fs::path> paths;
  std::string output = "report.html";
};

int write_report(const ReportArguments& arguments) {
  const auto report = read_report(arguments.paths);
  const auto is_page = [](const fs::path& file) {
    return is_own_file(file, "<!DOCTYPE html>", R"(<meta name="generator" content="kolo">)");
  };
  require_writable("report: --output", arguments.output,
                   {"a page of kolo report", {".html", ".htm"}, is_page});
  const auto data = report_data(report, format_moment(wall_time()));
  write_file_atomically(arguments.output, report_page(data));
  std::int64_t figures = 0;
  for (const auto& section : data.at("sections"))
    if (section.contains("figures")) figures += std::ssize(section["figures"]);
  print_wrapped(fmt::format("{}: {}, {}\n", arguments.output,
                            counted(std::ssize(report.runs) + std::ssize(report.trials), "run"),
                            counted(figures, "figure")));
  for (const auto& warning : data.at("warnings"))
    complain("warning: " + warning.get<std::string>());
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] =
      add_command(app, chosen, "report", "Show runs, a study or a sweep on one page", write_report);
  const auto require_path = [](const std::string& text) {
    if (text.empty()) refuse_option_value("runs", "the folder of a run", text);
    return std::string();
  };
  command->add_option("runs", arguments->paths, "Folders of runs, history.json, a study or a sweep")
      ->required()
      ->check(require_path)
      ->type_name("RUN...");
  add_text_option(*command, "-o,--output FILE", arguments->output, "a file's name", "Page to write")
      ->default_str(arguments->output);
  command->footer(
      "Examples:\n"
      "  kolo report results/fashion_mnist\n"
      "  kolo report results/adam results/sgd -o compared.html\n"
      "  kolo report results/study");
}

namespace {

struct TimelineArguments {
  fs::path folder;
  fs::path output;  // empty: timeline.json, of a run in its folder
};

// Replaces a run's folder by that of its ranks' files, and fills in the output.
TimelineArguments completed(TimelineArguments arguments) {
  const RunFolder run{arguments.folder};
  const bool is_run = fs::exists(run.config()) && fs::is_directory(run.timelines_of_ranks());
  if (is_run) arguments.folder = run.timelines_of_ranks();
  if (arguments.output.empty()) arguments.output = is_run ? run.timeline() : "timeline.json";
  return arguments;
}

void require_output(const TimelineArguments& arguments) {
  const auto& output = arguments.output;
  const auto is_timeline = [](const fs::path& file) {
    return is_own_file(file, "[\n{\"", "\"ph\":");
  };
  require_writable("timeline: --output", output, {"a timeline", {".json"}, is_timeline});
  std::error_code error;
  const bool is_beside_ranks =
      fs::equivalent(fs::absolute(output, error).parent_path(), arguments.folder, error);
  if (is_beside_ranks && output.filename().string().starts_with("rank-")) {
    throw InputError(fmt::format(
        "timeline: --output {}: so the files are called that it is made of; choose another name",
        output.string()));
  }
}

int timeline(const TimelineArguments& given) {
  const auto arguments = completed(given);
  if (!fs::is_directory(arguments.folder))
    throw InputError(
        fmt::format("timeline: {} is no folder; name a run's, or the one of the ranks' files",
                    arguments.folder.string()));
  require_output(arguments);
  const auto merged = merge_timelines(arguments.folder, arguments.output);
  std::cout << fmt::format("{}: {} events of {}\n", arguments.output.string(), merged.events,
                           counted(merged.files, "rank"));
  if (merged.damaged > 0) {
    std::cout << fmt::format("left out {} that a killed rank had not finished\n",
                             counted(merged.damaged, "event"));
  }
  std::cout << to_text(summarize_timeline(arguments.output));
  return 0;
}

}  // namespace

void add_timeline_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] = add_command(
      app, chosen, "timeline", "Merge the timelines that the ranks of a run wrote", timeline);
  add_text_option(*command, "folder FOLDER", arguments->folder, "a folder of timelines",
                  "Folder of a run, or one with the ranks' files rank-*.json");
  add_text_option(*command, "-o,--output FILE", arguments->output, "a file's name",
                  "The file to write")
      ->default_str("timeline.json, of a run in its folder");
  command->footer(
      "Ranks write their files with kolo train --timeline, or when KOLO_TIMELINE names a folder. "
      "Open the result in chrome://tracing or https://ui.perfetto.dev. For pipelines and shared "
      "samples the command also prints how long ranks are idle and what halo exchanges take. "
      "kolo-plot draws a step of it for documents.\n\n"
      "Examples:\n"
      "  KOLO_TIMELINE=/tmp/trace kolo run -n 2 ./my_training\n"
      "  kolo timeline /tmp/trace -o timeline.json\n"
      "  kolo timeline results/hello");
}

}  // namespace kolo
