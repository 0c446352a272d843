#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/file.h"
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
};

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

int write_report(const ReportArguments& arguments) {
  auto report = read_report(arguments.paths);
  report.axis = find_named<CurveAxis>(arguments.axis);
  const auto is_page = [](const fs::path& file) {
    return is_own_file(file, "<!DOCTYPE html>", R"(<meta name="generator" content="kolo">)");
  };
  require_writable("report: --output", arguments.output,
                   {"a page of kolo report", {".html", ".htm"}, is_page});
  const auto data = report_data(report, format_moment(wall_time()));
  write_file_atomically(arguments.output, report_page(data));
  std::size_t figures = 0;
  for (const auto& section : data.at("sections"))
    if (section.contains("figures")) figures += section["figures"].size();
  print_wrapped(fmt::format("{}: {}, {}\n", arguments.output,
                            counted(report.runs.size() + report.trials.size(), "run"),
                            counted(figures, "figure")));
  for (const auto& warning : data.at("warnings"))
    std::cerr << fmt::format("kolo: warning: {}\n", warning.get<std::string>());
  return 0;
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
  add_choice_option(*command, "--axis", arguments->axis, {"epoch", "step", "relative", "wall"},
                    "What curves stand against at first: epoch, step, time since the run's start, "
                    "or time of day");
  command->footer(
      "Examples:\n"
      "  kolo report results/fashion_mnist\n"
      "  kolo report results/adam results/sgd -o compared.html\n"
      "  kolo report results/study --axis relative");
  command->callback(
      [arguments, &action] { action = [arguments] { return write_report(*arguments); }; });
}

}  // namespace kolo
