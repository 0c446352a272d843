#include <csignal>
#include <iostream>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/eval/evaluation_report.h"
#include "cli/option_values.h"
#include "cli/rank/rank_guard.h"
#include "cli/rank/rank_job.h"
#include "cli/rank/rank_setup.h"
#include "cli/rank/run_facts.h"
#include "cli/shared_options.h"
#include "cli/train/resume.h"
#include "cli/train/run_folder.h"
#include "kolo/base/allocator.h"
#include "kolo/base/error.h"
#include "kolo/config/factories.h"
#include "kolo/launch/launch_environment.h"
#include "kolo/launch/launch_ranks.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/train/evaluation.h"
#include "launch/terminal.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

struct EvalArguments {
  fs::path path;
  std::vector<std::string> overrides;
  RankOptions ranks;
  std::string checkpoint = "best";
  std::string split = "validation";
  bool json = false;
};

// A run and one of its checkpoints.
struct Subject {
  RunFolder run;
  fs::path checkpoint;
};

bool is_checkpoint(const fs::path& path) {
  return fs::exists(path / "manifest.json");
}

Subject find_subject(const EvalArguments& arguments) {
  const fs::path path = fs::absolute(arguments.path).lexically_normal();
  if (is_checkpoint(path)) {
    const fs::path clean = path.has_filename() ? path : path.parent_path();
    return {{clean.parent_path().parent_path()}, clean};
  }
  const RunFolder run{path};
  if (!fs::exists(run.config())) {
    throw InputError(
        fmt::format("eval: {} is neither a run's folder, which holds config.yaml, nor one of its "
                    "checkpoints, which holds manifest.json",
                    arguments.path.string()));
  }
  // A run without validation has no best one.
  const bool is_newest = arguments.checkpoint == "best" && !run.checkpoint_store().best();
  return {run,
          find_checkpoint(run, is_newest ? std::string(newest_checkpoint) : arguments.checkpoint)};
}

struct PreparedEvaluation {
  RunConfig config;
  Datasets datasets;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<Network> network;
};

// The data is read as in validation: whole, in order, never varied (make_datasets).
RunConfig load(const EvalArguments& arguments, const Subject& subject) {
  return load_run_config({subject.run.config(), std::nullopt, arguments.overrides});
}

PreparedEvaluation prepare(const EvalArguments& arguments, const RunConfig& config,
                           bool looks_at_files = true) {
  require_precision(config.training.precision);
  Datasets datasets = make_datasets(config, looks_at_files, false);
  auto dataset = arguments.split == "training" ? datasets.training : datasets.validation;
  auto network = make_network(config, dataset->layout());
  return {config, std::move(datasets), std::move(dataset), std::move(network)};
}

EvaluationReport evaluate_checkpoint(const EvalArguments& arguments, const Subject& subject,
                                     const PreparedEvaluation& prepared,
                                     const Communicator& communicator) {
  const auto& config = prepared.config;
  EvaluationReport report{.model = config.model.name,
                          .checkpoint = subject.checkpoint.string(),
                          .split = arguments.split,
                          .ranks = communicator.size(),
                          .class_names = prepared.datasets.class_names};
  const auto classes = prepared.dataset->layout().classes;
  if (classes > 0) report.matrix.emplace(classes);
  if (communicator.rank() == 0) {
    const auto loaded = load_named(subject.checkpoint, CheckpointReading::whole);
    load_network(loaded.content, *prepared.network);
    report.step = loaded.step;
    report.epoch = loaded.content.state.value("epoch", std::int64_t{0});
  }
  broadcast_parameters(communicator, *prepared.network);
  broadcast_buffers(communicator, *prepared.network);
  auto objective = make_objective(config);
  if (classes > 5) objective.top = 5;
  report.top = objective.top;
  const auto loader =
      make_validation_loader(config, prepared.dataset, communicator.rank(), communicator.size());
  EvaluationProgress progress;
  std::optional<ProgressBar> bar;
  if (communicator.rank() == 0) {
    const auto options = progress_options_from_environment();
    bar.emplace(progress_stream(options), options);
    bar->start(arguments.split, loader->batches());
    progress = [&](std::int64_t done, std::int64_t) { bar->update(done, {}); };
  }
  report.sums = once_begun([&] {
    return evaluate(communicator, *prepared.network, objective, *loader,
                    report.matrix ? &*report.matrix : nullptr, progress);
  });
  if (bar) bar->clear();
  return report;
}

void print(const EvalArguments& arguments, const EvaluationReport& report) {
  if (arguments.json)
    std::cout << to_json(report).dump() << std::endl;
  else
    print_wrapped(to_text(report));
}

int evaluate_as_rank(const EvalArguments& arguments, const LaunchEnvironment& environment) {
  keep_freed_memory();
  std::optional<Subject> subject;
  std::optional<PreparedEvaluation> prepared;
  RunConfig config;
  RankJob job;
  job.configure = [&] {
    subject = find_subject(arguments);
    config = load(arguments, *subject);
    set_threads(config.device, environment);
    return config.communication;
  };
  job.prepare = [&](int rank, int /*ranks*/) {
    prepared = prepare(arguments, config, rank == 0);
    return facts_of(config, prepared->datasets);
  };
  job.run = [&](const Communicator& communicator) {
    const auto report = evaluate_checkpoint(arguments, *subject, *prepared, communicator);
    if (communicator.rank() == 0) print(arguments, report);
    return 0;
  };
  return run_rank_job(environment, job);
}

int eval(const EvalArguments& arguments) {
  const auto environment = detect_launch_environment();
  if (arguments.ranks.are_many() && !environment.is_launched()) {
    const auto config = load(arguments, find_subject(arguments));
    (void)prepare(arguments, config);
    become_ranks({.ranks = *arguments.ranks.ranks,
                  .oversubscribe = arguments.ranks.oversubscribe,
                  .threads = config.device.intra_threads},
                 {.stop = {.signal = SIGTERM, .message = "the ranks are ended"}});
  }
  require_ranks(environment, arguments.ranks.ranks.value_or(0));
  return evaluate_as_rank(arguments, environment);
}

}  // namespace

void add_eval_command(CLI::App& app, std::function<int()>& action) {
  const auto arguments = std::make_shared<EvalArguments>();
  CLI::App* const command = app.add_subcommand(
      "eval", "Measure a trained network: loss, accuracy, each class, confusion matrix");
  add_text_option(*command, "path", arguments->path, "a run's folder or one of its checkpoints",
                  "A run's folder, or one of its checkpoints")
      ->required()
      ->type_name("RUN|CHECKPOINT");
  add_settings(*command, arguments->overrides,
               "key.sub=value: settings that replace the run's, for example data.path=FOLDER");
  add_rank_options(*command, arguments->ranks,
                   "Start so many ranks on this machine; the numbers are the same for any");
  add_text_option(*command, "--checkpoint", arguments->checkpoint, "best, newest or a step",
                  "Of a run: the most accurate one (of least loss where there is no accuracy), the "
                  "newest, or that of a step (default: best)")
      ->type_name("best|newest|STEP");
  add_choice_option(*command, "--data", arguments->split, {"validation", "training"},
                    "What to measure on (default: validation)");
  command->add_flag("--json", arguments->json, "Print one JSON object, with the whole matrix");
  command->footer(
      "Examples:\n"
      "  kolo eval results/fashion_mnist\n"
      "  kolo eval results/fashion_mnist/checkpoints/step-00004690 -n 2 --json");
  command->callback([arguments, &action] { action = [arguments] { return eval(*arguments); }; });
}

}  // namespace kolo
