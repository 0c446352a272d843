#include <iostream>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "kolo/parallel/timeline.h"

namespace kolo {

namespace {

struct TimelineArguments {
  std::string folder;
  std::string output = "timeline.json";
};

int merge(const TimelineArguments& arguments) {
  require_writable("timeline: --output", arguments.output);
  const auto merged = merge_timelines(arguments.folder, arguments.output);
  std::cout << fmt::format("{}: {} events of {} rank{}\n", arguments.output, merged.events,
                           merged.files, merged.files == 1 ? "" : "s");
  if (merged.damaged > 0) {
    std::cout << fmt::format("left out {} event{} that a killed rank had not finished\n",
                             merged.damaged, merged.damaged == 1 ? "" : "s");
  }
  return 0;
}

}  // namespace

void add_timeline_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<TimelineArguments>();
  CLI::App* const command =
      app.add_subcommand("timeline", "Make one timeline of those that the ranks of a run wrote");
  command->add_option("folder", arguments->folder, "Holds the ranks' files, rank-*.json")
      ->required()
      ->type_name("FOLDER");
  command->add_option("-o,--output", arguments->output, "The file to write")
      ->capture_default_str()
      ->type_name("FILE");
  command->footer(
      "Ranks write their files when KOLO_TIMELINE names a folder, or with kolo train --timeline.\n"
      "Open the result in chrome://tracing or https://ui.perfetto.dev.\n\n"
      "Examples:\n"
      "  KOLO_TIMELINE=/tmp/trace kolo run -n 2 ./my_training\n"
      "  kolo timeline /tmp/trace -o timeline.json");
  command->callback([arguments, &action] { action = [arguments] { return merge(*arguments); }; });
}

}  // namespace kolo
