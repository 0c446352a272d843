#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/parallel/merge_timelines.h"
#include "kolo/report/run_record.h"
#include "kolo/tools/timeline.h"
#include "run/run_folder.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

struct TimelineArguments {
  fs::path folder;
  fs::path output;  // empty: timeline.json, of a run in its folder
};

// A run's folder stands for the ranks' files in it.
TimelineArguments completed(TimelineArguments arguments) {
  const RunFolder run{arguments.folder};
  const bool is_run = fs::exists(run.config()) && fs::is_directory(run.timelines_of_ranks());
  if (is_run) arguments.folder = run.timelines_of_ranks();
  if (arguments.output.empty()) arguments.output = is_run ? run.timeline() : "timeline.json";
  return arguments;
}

// Before anything is made.
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
  std::cout << fmt::format("{}: {} events of {} rank{}\n", arguments.output.string(), merged.events,
                           merged.files, merged.files == 1 ? "" : "s");
  if (merged.damaged > 0) {
    std::cout << fmt::format("left out {} event{} that a killed rank had not finished\n",
                             merged.damaged, merged.damaged == 1 ? "" : "s");
  }
  std::cout << to_text(summarize_timeline(arguments.output));
  return 0;
}

}  // namespace

void add_timeline_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<TimelineArguments>();
  CLI::App* const command =
      app.add_subcommand("timeline", "Make one timeline of those that the ranks of a run wrote");
  add_text_option(*command, "folder", arguments->folder, "a folder of timelines",
                  "A run's, or one that holds the ranks' files, rank-*.json")
      ->required()
      ->type_name("FOLDER");
  add_text_option(*command, "-o,--output", arguments->output, "a file's name", "The file to write")
      ->default_str("timeline.json, of a run in its folder")
      ->type_name("FILE");
  command->footer(
      "Ranks write their files when KOLO_TIMELINE names a folder, or with kolo train --timeline.\n"
      "Open the result in chrome://tracing or https://ui.perfetto.dev. Of pipelines and shared\n"
      "samples it is printed how long ranks are idle, and what halos take. kolo-plot draws a step\n"
      "of it for documents.\n\n"
      "Examples:\n"
      "  KOLO_TIMELINE=/tmp/trace kolo run -n 2 ./my_training\n"
      "  kolo timeline /tmp/trace -o timeline.json\n"
      "  kolo timeline results/hello");
  command->callback(
      [arguments, &action] { action = [arguments] { return timeline(*arguments); }; });
}

}  // namespace kolo
