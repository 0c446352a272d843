#include "kolo/run/run.h"

#include <csignal>

#include "base/openmp.h"
#include "comm/job.h"
#include "kolo/base/machine.h"
#include "run/begin_process.h"
#include "run/launch/terminal.h"
#include "run/prepared_run.h"
#include "run/rank_job.h"
#include "run/resume.h"
#include "run/run_device.h"
#include "run/run_training.h"
#include "run/stopping.h"
#include "run/work_part.h"

namespace kolo {

namespace {

int run_configured(const std::function<RunConfig()>& configure, const RunComponents& components,
                   const RunOptions& options) {
  const auto environment = detect_launch_environment();
  Stopping stopping(options, environment);
  keep_freed_memory();
  RunContext context{.options = options,
                     .observers = components.observers,
                     .stopping = stopping,
                     .progress = options.console == nullptr ? progress_options_from_environment()
                                                            : ProgressOptions{}};
  RunConfig config;
  std::optional<PreparedRun> prepared;
  RankJob job;
  job.communicator = options.communicator;
  job.configure = [&] {
    config = configure();
    const int rank = job.communicator ? job.communicator->rank() : environment.rank;
    if (rank == 0) {
      context.origin = find_run_origin();
      context.origin.own_components = own_components(components);
      std::erase_if(context.origin.own_components, [&](const std::string& part) {
        return part.starts_with("network ") && part != "network " + config.model.name;
      });
    }
    set_threads(config.device, environment);
    return config.communication;
  };
  job.prepare = [&](const RankPreparation& as) {
    prepared = prepare_training(config, components, options, as.ranks, as.rank == 0);
    auto facts = facts_of(prepared->config, prepared->datasets);
    facts.push_back({"whether it goes on from a checkpoint", options.resume ? "yes" : "no"});
    return facts;
  };
  job.load = [&](const Communicator& communicator) { load_data(communicator, prepared->datasets); };
  job.run = [&](const Communicator& communicator) {
    return run_training(*prepared, communicator, context);
  };
  return run_rank_job(environment, job);
}

}  // namespace

int run(const RunConfig& config, const RunComponents& components, const RunOptions& options) {
  return run_configured([&] { return config; }, components, options);
}

int run(const ConfigSource& source, const RunComponents& components, const RunOptions& options) {
  return run_configured([&] { return load_run_config(source, components.models); }, components,
                        options);
}

int run_main(char** argv, const std::function<int()>& body) {
  begin_process(argv);
  return run_main(body);
}

int run_main(const std::function<int()>& body) {
  // Makes a write beyond the limit of a file's size (ulimit -f) fail with a message.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    // Refuse variables' values here, in one process, before ranks do.
    (void)openmp_threads_wanted();
    (void)with_environment({});
    return body();
  } catch (const WrongLauncher& error) {
    if (detect_launch_environment().rank == 0) complain(error.what());
    return exit_wrong_input;
  } catch (const std::exception& error) {
    // Lets the lowest of the ranks that fail alike speak, after which launchers end the others.
    const int rank = detect_launch_environment().rank;
    let_lower_ranks_speak(rank);
    complain((rank == 0 ? "" : describe_rank(rank) + ": ") + message_of(error));
    return exit_status_of(error);
  }
}

}  // namespace kolo
