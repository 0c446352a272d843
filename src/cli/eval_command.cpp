#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/eval_pictures.h"
#include "cli/options.h"
#include "kolo/run/evaluate_run.h"
#include "kolo/train/observe/format.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

struct EvalArguments {
  EvaluationRequest request;
  RankOptions ranks;
  bool json = false;
  std::string pictures;  // the folder; empty: none are drawn
};

constexpr std::int64_t most_classes = 20;  // of a matrix that is still readable

std::size_t width_of_names(const RunEvaluation& report) {
  std::size_t width = 5;  // of "class"
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label)
    width = std::max(width, report.class_name(label).size());
  return width;
}

std::span<const std::int64_t> row_of(const ConfusionMatrix& matrix, std::int64_t target) {
  const auto classes = static_cast<std::size_t>(matrix.classes());
  return matrix.counts().subspan(static_cast<std::size_t>(target) * classes, classes);
}

std::int64_t sum_of(std::span<const std::int64_t> row) {
  return std::reduce(row.begin(), row.end());
}

// The class that samples of `target` are most often mistaken for, "-" when none is.
std::string usual_mistake(const RunEvaluation& report, std::int64_t target) {
  const auto row = row_of(*report.matrix, target);
  std::vector<std::int64_t> mistakes(row.begin(), row.end());
  mistakes[static_cast<std::size_t>(target)] = 0;
  const auto worst = std::ranges::max_element(mistakes);
  if (*worst == 0) return "-";
  const double share = static_cast<double>(*worst) / static_cast<double>(sum_of(row));
  return fmt::format("{} ({:.2f} %)", report.class_name(worst - mistakes.begin()), 100 * share);
}

std::string table_of_classes(const RunEvaluation& report) {
  const auto width = width_of_names(report);
  std::string text = fmt::format("\n{:<{}}  {:>8}  {:>9}  {}\n", "class", width, "samples",
                                 "accuracy", "mistaken for");
  const auto accuracies = report.matrix->accuracy_by_class();
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const double accuracy = accuracies[static_cast<std::size_t>(label)];
    text += fmt::format("{:<{}}  {:>8}  {:>9}  {}\n", report.class_name(label), width,
                        format_count(sum_of(row_of(*report.matrix, label))),
                        std::isfinite(accuracy) ? fmt::format("{:.2f} %", 100 * accuracy) : "-",
                        usual_mistake(report, label));
  }
  return text;
}

std::string table_of_counts(const RunEvaluation& report) {
  const auto classes = report.matrix->classes();
  if (classes > most_classes) {
    return fmt::format("\nThe confusion matrix of {} classes is in --json.\n", classes);
  }
  const auto width = width_of_names(report);
  std::string text =
      "\nConfusion matrix: a row is what a sample is, a column what it was taken for\n";
  text += std::string(width, ' ');
  for (std::int64_t label = 0; label < classes; ++label) text += fmt::format("{:>7}", label);
  text += "\n";
  for (std::int64_t target = 0; target < classes; ++target) {
    text += fmt::format("{:<{}}", report.class_name(target), width);
    for (const auto count : row_of(*report.matrix, target)) text += fmt::format("{:>7}", count);
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

// For people: the totals; of classes a line each with what it is mostly taken for, and the
// confusion matrix where it fits a screen.
std::string to_text(const RunEvaluation& report) {
  const auto& sums = report.sums;
  std::string text = fmt::format("{}, {} (epoch {}, step {})\n{} data, {} samples, {} rank{}\n\n",
                                 report.model, report.checkpoint, report.epoch, report.step,
                                 report.split, format_count(std::llround(sums.samples)),
                                 report.ranks, report.ranks == 1 ? "" : "s");
  if (!report.matrix) return text + fmt::format("loss      {}\n", format_loss(sums.mean_loss()));
  text += fmt::format("loss      {:.5f}\naccuracy  {:.2f} %\n", sums.mean_loss(),
                      100 * sums.accuracy());
  if (report.top > 0)
    text += fmt::format("top {:<4}  {:.2f} %\n", report.top, 100 * sums.top_accuracy());
  return text + table_of_classes(report) + table_of_counts(report);
}

// The same for programs, with the whole matrix.
nlohmann::ordered_json to_json(const RunEvaluation& report) {
  const auto& sums = report.sums;
  nlohmann::ordered_json json{
      {"model", report.model},   {"checkpoint", report.checkpoint},
      {"epoch", report.epoch},   {"step", report.step},
      {"data", report.split},    {"samples", std::llround(sums.samples)},
      {"n_ranks", report.ranks}, {"loss", finite_or_null(sums.mean_loss())}};
  if (!report.matrix) return json;
  json["accuracy"] = finite_or_null(sums.accuracy());
  if (report.top > 0)
    json[fmt::format("top_{}_accuracy", report.top)] = finite_or_null(sums.top_accuracy());
  json["classes"] = nlohmann::ordered_json::array();
  json["confusion_matrix"] = nlohmann::ordered_json::array();
  const auto accuracies = report.matrix->accuracy_by_class();
  for (std::int64_t label = 0; label < report.matrix->classes(); ++label) {
    const auto row = row_of(*report.matrix, label);
    json["classes"].push_back(
        {{"name", report.class_name(label)},
         {"samples", sum_of(row)},
         {"accuracy", finite_or_null(accuracies[static_cast<std::size_t>(label)])}});
    json["confusion_matrix"].push_back(std::vector<std::int64_t>(row.begin(), row.end()));
  }
  return json;
}

// In --json nothing stands beside the object.
void draw(const EvalArguments& arguments, const RunEvaluation& evaluation) {
  const auto files = draw_evaluation(evaluation, arguments.pictures);
  (arguments.json ? std::cerr : std::cout)
      << (files.empty()
              ? "\npictures: none: only images and fields of two or three dimensions are drawn\n"
              : fmt::format("\npictures: {} in {}; kolo report shows those in RUN/pictures\n",
                            files.size(), arguments.pictures));
}

int eval(EvalArguments arguments, const std::vector<std::string>& words) {
  if (!arguments.pictures.empty()) {
    require_room_for_pictures(arguments.pictures);
    arguments.request.samples = drawn_samples;
  }
  const auto check = [&] { return check_evaluation(arguments.request); };
  if (const auto status = start_ranks(arguments.ranks, words, check)) return *status;
  return evaluate_run(arguments.request, [&](const RunEvaluation& evaluation) {
    if (arguments.json)
      std::cout << to_json(evaluation).dump() << std::endl;
    else
      print_wrapped(to_text(evaluation));
    if (!arguments.pictures.empty()) draw(arguments, evaluation);
  });
}

}  // namespace

void add_eval_command(CLI::App& app, std::function<int()>& action,
                      const std::vector<std::string>& words) {
  const auto arguments = std::make_shared<EvalArguments>();
  CLI::App* const command = app.add_subcommand(
      "eval", "Measure a trained network: loss, accuracy, each class, confusion matrix");
  add_text_option(*command, "path", arguments->request.path,
                  "a run's folder or one of its checkpoints",
                  "A run's folder, or one of its checkpoints")
      ->required()
      ->type_name("RUN|CHECKPOINT");
  add_settings(*command, arguments->request.overrides,
               "key.sub=value: settings that replace the run's, for example data.path=FOLDER");
  add_rank_options(*command, arguments->ranks,
                   "Start so many ranks on this machine; the numbers are the same for any");
  add_text_option(*command, "--checkpoint", arguments->request.checkpoint, "best, newest or a step",
                  "Of a run: the most accurate one (of least loss where there is no accuracy), the "
                  "newest, or that of a step (default: best)")
      ->type_name("best|newest|STEP");
  add_choice_option(*command, "--data", arguments->request.split, {"validation", "training"},
                    "What to measure on (default: validation)");
  command->add_flag("--json", arguments->json, "Print one JSON object, with the whole matrix");
  add_text_option(
      *command, "--pictures", arguments->pictures, "a folder",
      fmt::format("Draw {} samples, evenly spread over the data, with what the network makes of "
                  "them, into this folder as PNG (kolo report shows "
                  "those in RUN/pictures)",
                  drawn_samples))
      ->type_name("FOLDER");
  command->footer(
      "Examples:\n"
      "  kolo eval results/fashion_mnist\n"
      "  kolo eval results/fashion_mnist --pictures results/fashion_mnist/pictures\n"
      "  kolo eval results/fashion_mnist/checkpoints/step-00004690 -n 2 --json");
  command->callback([arguments, &words, &action] {
    action = [arguments, &words] { return eval(*arguments, words); };
  });
}

}  // namespace kolo
