#include <algorithm>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/report/own_files.h"
#include "kolo/report/report.h"
#include "kolo/train/observe/format.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

struct ReportArguments {
  std::vector<fs::path> paths;
  std::string output = "report.html";
  std::string axis;  // empty: the first that is known
  std::vector<double> targets;
};

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void require_sensible_targets(const Report& report, const std::vector<double>& targets) {
  const bool has_accuracy = std::ranges::any_of(report.runs, [](const RunRecord& run) {
    return run.find("accuracy", "validation") != nullptr;
  });
  for (const double target : targets) {
    if (has_accuracy && target > 1) {
      throw InputError(
          fmt::format("report: --target {:g}: accuracies are from 0 to 1; {:g} % is --target {:g}",
                      target, target, target / 100));
    }
  }
}

void require_known_axis(const Report& report) {
  const auto known = known_axes(report.runs);
  if (!report.axis || known.empty() || std::ranges::find(known, *report.axis) != known.end())
    return;
  std::vector<std::string> names;
  for (const CurveAxis axis : known) names.emplace_back(name_of(axis));
  throw InputError(fmt::format("report: --axis {}: no run tells it; these runs tell {}",
                               name_of(*report.axis), join(names)));
}

int write_report(const ReportArguments& arguments) {
  auto report = read_report(arguments.paths);
  report.targets = arguments.targets;
  std::ranges::sort(report.targets);
  report.axis = find_named<CurveAxis>(arguments.axis);
  require_sensible_targets(report, arguments.targets);
  require_known_axis(report);
  require_writable("report: --output", arguments.output,
                   {"a page of kolo report", {".html", ".htm"}, is_report_page});
  std::size_t figures = 0;
  for (const auto& group : report_figures(report)) figures += group.figures.size();
  write_file_atomically(arguments.output,
                        report_page(report_data(report, format_moment(wall_time()))));
  print_wrapped(fmt::format("{}: {}, {}\n", arguments.output,
                            counted(report.runs.size() + report.trials.size(), "run"),
                            counted(figures, "figure")));
  for (const auto& warning : report_warnings(report))
    std::cerr << fmt::format("kolo: warning: {}\n", warning);
  return 0;
}

void add_figure_options(CLI::App& command, ReportArguments& arguments) {
  add_choice_option(command, "--axis", arguments.axis, {"epoch", "step", "relative", "wall"},
                    "What curves stand against at first: epoch, step, time since the run's start, "
                    "or time of day");
  const auto require_target = [](const std::string& text) {
    if (parse_number<double>(text).value_or(0) <= 0)
      refuse_option_value("--target", "an accuracy from 0 to 1, or a loss above 0", text);
    return std::string();
  };
  command
      .add_option("--target", arguments.targets,
                  "Tell when runs reached this validation accuracy, from 0 to 1 (or loss, of runs "
                  "without accuracy); can be repeated")
      ->check(require_target)
      ->allow_extra_args(false)
      ->type_name("ACCURACY");
}

}  // namespace

void add_report_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<ReportArguments>();
  CLI::App* const command =
      app.add_subcommand("report", "Show runs, or a study, on one page that works anywhere");
  const auto require_path = [](const std::string& text) {
    if (text.empty()) refuse_option_value("runs", "the folder of a run", text);
    return std::string();
  };
  command->add_option("runs", arguments->paths, "Folders of runs, history.json, a study or a sweep")
      ->required()
      ->check(require_path)
      ->type_name("RUN...");
  add_text_option(*command, "-o,--output", arguments->output, "a file's name", "The page to write")
      ->default_str(arguments->output)
      ->type_name("FILE");
  add_figure_options(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  kolo report results/fashion_mnist\n"
      "  kolo report results/adam results/sgd -o compared.html --target 0.85 --target 0.9\n"
      "  kolo report results/study --axis relative");
  command->callback(
      [arguments, &action] { action = [arguments] { return write_report(*arguments); }; });
}

}  // namespace kolo
