#include <iostream>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/options.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/run/run.h"
#include "run/launch/signals.h"
#include "run/launch/terminal.h"
#include "run/resume.h"
#include "run/run_training.h"
#include "run/stopping.h"

namespace kolo {

namespace {

struct TrainArguments {
  ConfigSource config;
  RankOptions ranks;
  HostOptions hosts;
  RestartPolicy policy;  // --max-restarts, --min-ranks
  RunOptions run;
  bool show_config = false;
};

ConfigSource source_of(const TrainArguments& arguments) {
  ConfigSource source = arguments.config;
  source.job = job_number();
  return source;
}

const RunComponents& components_of(const TrainArguments& arguments) {
  return arguments.ranks.chosen->program.components;
}

RunConfig config_of(const TrainArguments& arguments) {
  return load_run_config(source_of(arguments), components_of(arguments).models);
}

// Number of ranks: -n, or all slots of the given hosts.
int ranks_of(const TrainArguments& arguments) {
  const auto hosts = arguments.hosts.read();
  return arguments.ranks.ranks.value_or(hosts.empty() ? 1 : total_slots(hosts));
}

// Checks what can be checked, then starts the ranks.
int launch(const TrainArguments& arguments, const LaunchEnvironment& environment) {
  // Handles signals until the ranks start; then they and run_ranks() do.
  std::optional<StopSignal> stop(std::in_place, StopSignal::Says::everything);
  const auto config = config_of(arguments);
  const auto& options = arguments.run;
  LaunchRequest request = launch_request(arguments.ranks, config);
  request.hosts = arguments.hosts.read();
  request.ranks = ranks_of(arguments);
  (void)rank_command(request,
                     examine_machine(environment, request.launcher, !request.hosts.empty()));
  const auto run = prepare_training(config, components_of(arguments), options, request.ranks, true);
  if (!run.finished.empty()) {
    std::cout << run.finished << std::endl;
    return 0;
  }
  if (run.starts_anew() && would_be_moved(source_of(arguments).file, run.folder)) {
    throw InputError(fmt::format(
        "{} is in the output folder {}, which would be moved aside before the ranks read it; copy "
        "the file, or choose another folder with --output DIR",
        source_of(arguments).file.string(), run.folder.path.string()));
  }
  request.environment.emplace_back(job_number_variable, job_number());
  if (options.stop_before)
    request.environment.emplace_back(stop_time_variable,
                                     fmt::format("{:.3f}", *options.stop_before));
  stop->begin();
  const auto policy = training_restarts(request, run, options, arguments.policy, resume_newest);
  if (stop->is_requested()) {
    complain(fmt::format("stopped by {} before the training began", stop->name()));
    return exit_stopped;
  }
  stop.reset();
  return run_ranks(request, policy);
}

void require_sense(const TrainArguments& arguments, const LaunchEnvironment& environment) {
  const int least = arguments.policy.min_ranks, ranks = ranks_of(arguments);
  if (least > 0 && arguments.policy.restarts == 0) {
    throw InputError(fmt::format(
        "--min-ranks {}: it says with how many ranks at least a run is started again; add "
        "--max-restarts N",
        least));
  }
  if (least > ranks)
    throw InputError(
        fmt::format("--min-ranks {}: that is more than are started, -n {}", least, ranks));
  // Ranks that kolo has started get kolo's own command line with this option.
  if (arguments.policy.restarts > 0 && environment.is_launched() &&
      !environment_variable("KOLO_LAUNCHED")) {
    throw InputError(fmt::format(
        "--max-restarts {}: {} has started the ranks, so kolo can't start them again; leave it "
        "out, or start them with -n",
        arguments.policy.restarts, environment.launcher));
  }
}

int train(const TrainArguments& arguments) {
  if (arguments.show_config) {
    std::cout << to_yaml(config_of(arguments));
    return 0;
  }
  outlive_readers();
  const auto environment = detect_launch_environment();
  require_sense(arguments, environment);
  const bool many =
      ranks_of(arguments) > 1 || arguments.hosts.are_given() || arguments.policy.restarts > 0;
  if (many && !environment.is_launched()) return launch(arguments, environment);
  // A restart may have fewer ranks than the command line says.
  const bool may_be_fewer = arguments.policy.min_ranks > 0 && environment.is_launched();
  if (!may_be_fewer) require_ranks(environment, arguments.ranks.ranks.value_or(0));
  return run(source_of(arguments), components_of(arguments), arguments.run);
}

// Time of --stop-before. Ranks get it from the launcher, because "+2h" counts from its start.
double read_stop_time(const std::string& text) {
  const auto given = environment_variable(stop_time_variable);
  if (const auto time = given ? parse_number<double>(*given) : std::nullopt) return *time;
  const auto time = parse_stop_time(text, wall_time());
  if (!time) {
    refuse_option_value("--stop-before",
                        "a clock time such as 18:30 or 2026-11-24T18:30, or +2h30m from now", text);
  }
  if (*time <= wall_time()) refuse_option_value("--stop-before", "a time that is to come", text);
  return *time;
}

// Adds an option of the courses' scripts, which stands for a setting. --help leaves it out, since
// users of kolo write key=value.
void add_shortcut(
    CLI::App& command, const std::string& names, const char* type,
    const std::function<void(const std::string& name, const std::string& text)>& take) {
  const std::string name = names.substr(0, names.find(','));
  const auto read = [name, type, take](const std::string& text) {
    if (text.empty()) refuse_option_value(name, type, text);
    take(name, text);
  };
  add_value_option(command, fmt::format("{} {}", names, type), read, "")->group("");
}

void add_shortcuts(CLI::App& command, TrainArguments& arguments) {
  const auto set = [&](const std::string& name, const std::string& setting) {
    arguments.config.options.push_back({name, setting});
  };
  for (const auto& [names, key, type] :
       {std::tuple("--batch_size", "training.batch_size=", "SAMPLES"),
        std::tuple("--local_batch_size", "training.local_batch_size=", "SAMPLES"),
        std::tuple("--n_epochs,--num_epochs", "training.n_epochs=", "EPOCHS"),
        std::tuple("--num_data_workers", "data.workers=", "THREADS"),
        std::tuple("--dropout", "model.dropout=", "SHARE"),
        std::tuple("--bucket_cap_mb", "communication.bucket_mb=", "MIB")})
    add_shortcut(command, names, type,
                 [set, key = std::string(key)](const auto& name, const auto& text) {
                   set(name, key + text);
                 });
  add_shortcut(command, "--amp_mode", "none|bf16|fp16", [set](const auto& name, const auto& text) {
    set(name, "training.precision=" + (text == "none" ? "fp32" : text));
  });
  add_shortcut(command, "--optimizer", "KEY=VALUE,...", [set](const auto& name, const auto& text) {
    for (const std::string& setting : CLI::detail::split(text, ',')) {
      if (setting.empty() || setting.find('=') == std::string::npos)
        refuse_option_value(name, "settings such as name=SGD,lr=0.1,momentum=0.9", text);
      // The courses have the schedule in the optimizer, kolo in the training.
      const bool is_course = setting.starts_with("lr_") && !setting.starts_with("lr_scaling=");
      set(name, (is_course ? "training." : "optimizer.") + setting);
    }
  });
  add_shortcut(command, "--data_loader_config", "lowmem|inmem|synthetic",
               [set](const auto& name, const auto& text) {
                 const auto mode = text == "dali-lowmem" ? "lowmem" : text;
                 if (mode != "lowmem" && mode != "inmem" && mode != "synthetic")
                   refuse_option_value(name, "lowmem, dali-lowmem, inmem or synthetic", text);
                 set(name, "data.mode=" + mode);
               });
  command
      .add_flag_callback(
          "--enable_amp", [set] { set("--enable_amp", "training.precision=bf16"); }, "")
      ->group("");
}

}  // namespace

void add_train_command(CLI::App& app, Chosen& chosen) {
  const auto [command, arguments] = add_command(
      app, chosen, "train", "Train the network that a configuration file describes", train);
  add_config_options(*command, arguments->config);
  add_rank_options(*command, arguments->ranks, chosen, "Number of ranks to start");
  add_shortcuts(*command, *arguments);
  // Its value may be left out: give_resume_its_value() adds it.
  add_text_option(
      *command, "--resume [best|STEP|PATH]", arguments->run.resume,
      "newest, best, a step or a checkpoint",
      "Resume from a checkpoint of the output folder: the newest (default), the best, a "
      "step's, or a checkpoint's folder")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // job scripts add one
  command->add_flag("--allow-data-change", arguments->run.allow_data_change,
                    "With --resume: accept that samples come in another order (another seed, other "
                    "data, or another batch within an epoch)");
  add_text_option(*command, "-o,--output DIR", arguments->config.output_dir, "a folder",
                  "Folder of the run, instead of output_dir");
  command->add_flag("--timeline", arguments->run.timeline,
                    "Record what each rank does when, in timeline.json of the run's folder");
  command->add_flag("--show-config", arguments->show_config,
                    "Only print the configuration as kolo understands it");
  add_host_options(*command, arguments->hosts);
  add_number_option(
      *command, "--max-restarts TIMES", arguments->policy.restarts, {0, most_restarts},
      "Resume from the newest checkpoint when a rank dies, at most this often within an hour")
      ->group(cluster_options);
  add_number_option(
      *command, "--min-ranks RANKS", arguments->policy.min_ranks, {1, most_ranks},
      "With --max-restarts: if nodes are lost, resume with as many ranks as fit on the "
      "others, but no fewer than this (default: all)")
      ->group(cluster_options);
  add_value_option(
      *command, "--stop-before TIME",
      [arguments](const std::string& text) { arguments->run.stop_before = read_stop_time(text); },
      "Save a checkpoint and stop (status 75) before this time: 18:30, 2026-11-24T18:30 or +2h30m")
      ->group(cluster_options);
  add_number_option(
      *command, "--stop-after-epochs EPOCHS", arguments->run.stop_after_epochs,
      {1, std::numeric_limits<std::int64_t>::max()},
      "Save a checkpoint and stop (status 75) after this many epochs, without changing "
      "the schedule of the learning rate; continue with --resume")
      ->group(cluster_options);
  command->footer(
      "Examples:\n"
      "  kolo train configs/hello.yaml\n"
      "  kolo train configs/fashion_mnist.yaml -n 2\n"
      "  kolo train configs/fashion_mnist.yaml -n 2 training.n_epochs=10 -o results/ten\n"
      "  kolo train configs/fashion_mnist.yaml -n 2 --resume\n"
      "  kolo train configs/fashion_mnist.yaml -n 2 --resume best optimizer.lr=0.0005\n"
      "  kolo train configs/fashion_mnist.yaml -n 2 --max-restarts 3\n"
      "  kolo train configs/fashion_mnist.yaml -n 8 --hosts n1:4,n2:4 \\\n"
      "      --max-restarts 3 --min-ranks 4\n\n"
      "Options of the courses' scripts work, too: --n_epochs, --batch_size, --optimizer, "
      "--amp_mode and others (docs/use/configuration.md).\n\n"
      "Exit status: 0 done, 1 failed, 2 wrong input (nothing was written), 75 stopped on request "
      "after a checkpoint.");
}

}  // namespace kolo
