#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/launch/launch_ranks.h"
#include "kolo/report/results_table.h"
#include "kolo/study/reference.h"
#include "launch/terminal.h"

namespace kolo {

namespace {

struct ReferenceArguments {
  std::vector<std::string> words;  // [FILE] [NAME...] [key.sub=value...]
  std::optional<int> seeds;
  RankOptions ranks;
  std::string output;
  bool list = false;
  bool dry_run = false;
  bool quiet = false;
  bool json = false;
};

// Names of configurations have neither.
bool is_file(const std::string& word) {
  const std::filesystem::path path = word;
  std::error_code ignored;  // what can't be looked at is a name, which is then unknown
  return path.extension() == ".yaml" || path.extension() == ".yml" ||
         word.find('/') != std::string::npos || std::filesystem::is_regular_file(path, ignored);
}

ReferenceRequest request_of(const ReferenceArguments& arguments) {
  ReferenceRequest request;
  for (const auto& word : arguments.words) {
    if (word.find('=') != std::string::npos) {
      request.settings.push_back(word);
    } else if (!is_file(word)) {
      request.names.push_back(word);
    } else if (request.file.empty()) {
      request.file = word;
    } else {
      throw InputError(fmt::format("reference: {} and {} are both files; give one",
                                   request.file.string(), word));
    }
  }
  if (request.file.empty()) request.file = reference_file();
  request.seeds = arguments.seeds;
  request.ranks = arguments.ranks.ranks.value_or(1);
  request.oversubscribe = arguments.ranks.oversubscribe;
  if (!arguments.output.empty()) request.output = arguments.output;
  // On stderr, so that stdout is the result's.
  if (!arguments.quiet)
    request.say = [](const std::string& line) { std::cerr << line << std::endl; };
  return request;
}

void show_list(const ReferenceRequest& request, bool json) {
  const auto entries = reference_entries(request);
  if (json)
    std::cout << reference_list_json(request.file, entries).dump() << std::endl;
  else
    print_wrapped(fmt::format("{}: what was published of its configurations\n\n{}",
                              request.file.string(), to_text(reference_list(entries))));
}

void show_end(const FinishedReferences& finished, bool json) {
  if (json) {
    std::cout << finished.to_json().dump() << std::endl;
    return;
  }
  print_wrapped(fmt::format("\n{}\nresults in {}: report.html, reference.json, reference.csv\n",
                            to_text(reference_results(finished.results)),
                            finished.folder.string()));
}

int exit_status(const FinishedReferences& finished) {
  const bool is_good = std::ranges::none_of(finished.results, [](const auto& result) {
    return result.verdict == ReferenceVerdict::missed || result.verdict == ReferenceVerdict::failed;
  });
  return is_good ? 0 : exit_failed;
}

int reference(const ReferenceArguments& arguments) {
  const auto request = request_of(arguments);
  if (arguments.list) {
    show_list(request, arguments.json);
    return 0;
  }
  if (arguments.dry_run) {
    std::cout << describe_references(request);
    return 0;
  }
  const auto finished = run_references(request);
  if (finished.was_stopped) {
    complain("stopped; the same command goes on from here");
    return exit_stopped;
  }
  show_end(finished, arguments.json);
  return exit_status(finished);
}

void add_options(CLI::App& command, ReferenceArguments& arguments) {
  add_settings(command, arguments.words,
               "[FILE] [NAME...] [key.sub=value...]: the table, configs/reference.yaml unless "
               "given; which of its configurations, all unless given; settings of all trainings");
  add_number_option(command, "--seeds", arguments.seeds, {1, 1000},
                    "So many trainings of each, instead of reference.seeds")
      ->type_name("N");
  add_rank_options(command, arguments.ranks, "Ranks of each training (default: 1)");
  add_text_option(command, "-o,--output", arguments.output, "a folder",
                  "The folder of all trainings and the results (default: results/reference)")
      ->type_name("DIR");
  command.add_flag("--list", arguments.list, "Show what was published, and do nothing else");
  command.add_flag("--dry-run", arguments.dry_run, "Show the trainings, and do nothing else");
  command.add_flag("--quiet", arguments.quiet, "Don't tell of each training that is over");
  command.add_flag("--json", arguments.json, "Print the results, or the list, as JSON");
}

}  // namespace

void add_reference_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<ReferenceArguments>();
  CLI::App* const command = app.add_subcommand("reference", "Rerun published results, and compare");
  add_options(*command, *arguments);
  command->footer(
      "Each configuration is trained with several seeds, one after another, in folders of their\n"
      "own. What counts is the mean of their last epochs. The same command again goes on with "
      "what\n"
      "was interrupted. A configuration whose data are not there is skipped.\n\n"
      "Examples:\n"
      "  kolo reference --list\n"
      "  kolo reference fashion_mnist -n 2\n"
      "  kolo reference configs/reference.yaml fashion_mnist --seeds 1 data.workers=2\n\n"
      "Exit status: 0 all reached, 1 one was not or failed, 2 wrong input, 75 stopped on request.");
  command->callback(
      [arguments, &action] { action = [arguments] { return reference(*arguments); }; });
}

}  // namespace kolo
