#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/parallel/merge_timelines.h"
#include "kolo/report/own_files.h"
#include "kolo/tools/timeline.h"
#include "run/run_folder.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

struct TimelineArguments {
  std::string folder;
  std::string output;     // empty: timeline.json, of a run in its folder
  std::string picture;    // empty: none is drawn
  std::int64_t step = 0;  // that it shows; 0: one from the middle
};

// Before anything is made.
void require_outputs(const TimelineArguments& arguments, bool merges) {
  if (merges) {
    const fs::path output = arguments.output;
    require_writable("timeline: --output", output, {"a timeline", {".json"}, is_timeline});
    std::error_code error;
    const bool is_beside_ranks =
        fs::equivalent(fs::absolute(output, error).parent_path(), arguments.folder, error);
    if (is_beside_ranks && output.filename().string().starts_with("rank-")) {
      throw InputError(fmt::format(
          "timeline: --output {}: so the files are called that it is made of; choose another name",
          arguments.output));
    }
  }
  if (!arguments.picture.empty())
    require_writable("timeline: --picture", arguments.picture,
                     {"a picture of kolo's (SVG)", {".svg"}, is_drawing});
}

// Of the ranks' files in a folder, or of one that has been made of them already.
int draw(const TimelineArguments& arguments) {
  const bool is_folder = fs::is_directory(arguments.folder);
  const auto file = is_folder ? arguments.output : arguments.folder;
  write_file_atomically(arguments.picture, timeline_picture(file, arguments.step));
  std::cout << fmt::format("{}: a step of {}\n", arguments.picture, file);
  return 0;
}

int merge(const TimelineArguments& arguments) {
  const auto merged = merge_timelines(arguments.folder, arguments.output);
  std::cout << fmt::format("{}: {} events of {} rank{}\n", arguments.output, merged.events,
                           merged.files, merged.files == 1 ? "" : "s");
  if (merged.damaged > 0) {
    std::cout << fmt::format("left out {} event{} that a killed rank had not finished\n",
                             merged.damaged, merged.damaged == 1 ? "" : "s");
  }
  std::cout << to_text(summarize_timeline(arguments.output));
  return arguments.picture.empty() ? 0 : draw(arguments);
}

// A run's folder stands for the ranks' files in it.
TimelineArguments completed(TimelineArguments arguments) {
  const RunFolder run{arguments.folder};
  const bool is_run = fs::exists(run.config()) && fs::is_directory(run.timelines_of_ranks());
  if (is_run) arguments.folder = run.timelines_of_ranks();
  if (arguments.output.empty()) arguments.output = is_run ? run.timeline() : "timeline.json";
  return arguments;
}

int timeline(const TimelineArguments& given) {
  const auto arguments = completed(given);
  if (arguments.step != 0 && arguments.picture.empty())
    throw InputError("--step says what --picture FILE shows; give that too");
  const bool merges = fs::is_directory(arguments.folder);
  require_outputs(arguments, merges);
  if (merges) return merge(arguments);
  if (!arguments.picture.empty()) return draw(arguments);
  throw InputError(
      fmt::format("timeline: {} is no folder; name the folder of the ranks' files, or "
                  "a timeline.json together with --picture FILE",
                  arguments.folder));
}

}  // namespace

void add_timeline_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<TimelineArguments>();
  CLI::App* const command =
      app.add_subcommand("timeline", "Make one timeline of those that the ranks of a run wrote");
  add_text_option(*command, "folder", arguments->folder, "a folder of timelines",
                  "A run's, or one that holds the ranks' files, rank-*.json; or, with --picture, a "
                  "timeline.json")
      ->required()
      ->type_name("FOLDER");
  add_text_option(*command, "-o,--output", arguments->output, "a file's name", "The file to write")
      ->default_str("timeline.json, of a run in its folder")
      ->type_name("FILE");
  add_text_option(*command, "--picture", arguments->picture, "a file's name",
                  "Draw a step of all ranks as SVG, in this file")
      ->type_name("FILE");
  add_number_option(*command, "--step", arguments->step, {1},
                    "The step that the picture shows, instead of one from the middle")
      ->type_name("NUMBER");
  command->footer(
      "Ranks write their files when KOLO_TIMELINE names a folder, or with kolo train --timeline.\n"
      "Open the result in chrome://tracing or https://ui.perfetto.dev. Of pipelines and shared\n"
      "samples it is printed how long ranks are idle, and what halos take.\n\n"
      "Examples:\n"
      "  KOLO_TIMELINE=/tmp/trace kolo run -n 2 ./my_training\n"
      "  kolo timeline /tmp/trace -o timeline.json\n"
      "  kolo timeline results/hello\n"
      "  kolo timeline results/hello/timeline.json --picture step.svg --step 12");
  command->callback(
      [arguments, &action] { action = [arguments] { return timeline(*arguments); }; });
}

}  // namespace kolo
