#include "kolo/run/run.h"

#include <csignal>
#include <filesystem>
#include <iostream>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/openmp.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "run/begin_process.h"
#include "run/launch/terminal.h"
#include "run/prepared_run.h"
#include "run/rank_job.h"
#include "run/resume.h"
#include "run/run_device.h"
#include "run/run_training.h"
#include "run/stopping.h"
#include "run/work_share.h"

namespace kolo {

namespace {

int run_configured(const std::function<RunConfig()>& configure, const RunParts& parts,
                   const RunOptions& options) {
  const auto environment = detect_launch_environment();
  Stopping stopping(options, environment);
  keep_freed_memory();
  RunContext context{.options = options,
                     .observers = parts.observers,
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
    if (rank == 0) context.origin = find_run_origin();
    set_threads(config.device, environment);
    return config.communication;
  };
  job.prepare = [&](const RankPreparation& as) {
    prepared = prepare_training(config, parts, options, as.ranks, as.rank == 0);
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

// Lets the lowest of the ranks that fail alike speak, after which launchers end the others.
void complain_as_rank(const std::string& message) {
  const int rank = detect_launch_environment().rank;
  let_lower_ranks_speak(rank);
  complain(fmt::format("{}{}", rank == 0 ? "" : describe_rank(rank) + ": ", message));
}

}  // namespace

int run(const RunConfig& config, const RunParts& parts, const RunOptions& options) {
  return run_configured([&] { return config; }, parts, options);
}

int run(const ConfigSource& source, const RunParts& parts, const RunOptions& options) {
  return run_configured([&] { return load_run_config(source, parts.models); }, parts, options);
}

int run_main(char** argv, const std::function<int()>& body) {
  begin_process(argv);
  return run_main(body);
}

namespace {

// Command line of a program that trains with its own parts.
struct ProgramArguments {
  ConfigSource source;
  RunOptions options;
  int ranks = 0;  // to start; 0: not said
  bool wants_help = false;
};

ProgramArguments parse(std::span<const std::string> words, const std::string& usage) {
  ProgramArguments arguments;
  auto& [source, options, ranks, wants_help] = arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    constexpr std::string_view resume_from = "--resume=";
    if (word == "--help" || word == "-h") {
      wants_help = true;
    } else if (word == "-n" || word == "--ranks") {
      const auto value = i + 1 < words.size() ? words[++i] : std::string();
      ranks = parse_number<int>(value).value_or(0);
      if (ranks < 1)
        throw InputError(fmt::format("{}: expected a number of ranks, got \"{}\"", word, value));
    } else if (word == "--resume") {
      options.resume = newest_checkpoint;
    } else if (word.starts_with(resume_from) && word != resume_from) {
      options.resume = word.substr(resume_from.size());
    } else if (word == "--allow-data-change") {
      options.allow_data_change = true;
    } else if (word == "--timeline") {
      options.timeline = true;
    } else if (word.starts_with('-')) {
      throw InputError(fmt::format("unexpected \"{}\"; usage: {}", word, usage));
    } else if (source.file.empty()) {
      source.file = word;
    } else {
      source.overrides.emplace_back(word);
    }
  }
  if (source.file.empty() && !wants_help)
    throw InputError(fmt::format("give a configuration, a YAML file; usage: {}", usage));
  return arguments;
}

int run_words(const std::string& program, const std::vector<std::string>& words,
              const RunParts& parts) {
  const auto usage = fmt::format(
      "{} CONFIG [-n RANKS] [--resume[=best|STEP|PATH]] [--allow-data-change] [--timeline] "
      "[key.sub=value ...]",
      program);
  const auto [source, options, ranks, wants_help] = parse(words, usage);
  if (wants_help) {
    std::cout << "usage: " << usage << std::endl;
    return 0;
  }
  const auto environment = detect_launch_environment();
  if (ranks > 1 && !environment.is_launched()) {
    const auto config = load_run_config(source, parts.models);
    LaunchRequest request{.ranks = ranks,
                          .command = {own_program()},
                          .threads = config.device.intra_threads,
                          .end_together = true,
                          .launcher = config.communication.launcher,
                          .main = [&](const std::vector<std::string>& again) {
                            return run_main([&] { return run_words(program, again, parts); });
                          }};
    request.command.insert(request.command.end(), words.begin(), words.end());
    return run_ranks(request);
  }
  require_ranks(environment, ranks);
  return run(source, parts, options);
}

}  // namespace

int run_main(int argc, char** argv, const RunParts& parts) {
  return run_main(argv, [&] {
    const std::filesystem::path program = argv[0];
    return run_words(program.filename().string(), {argv + 1, argv + argc}, parts);
  });
}

int run_main(const std::function<int()>& body) {
  // Makes a write beyond the limit of a file's size (ulimit -f) fail with a message.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    (void)openmp_threads_wanted();  // refuses more than can be, which would end the program
    return body();
  } catch (const WrongLauncher& error) {
    if (detect_launch_environment().rank == 0) complain(error.what());
    return exit_wrong_input;
  } catch (const std::exception& error) {
    complain_as_rank(message_of(error));
    return exit_status_of(error);
  }
}

}  // namespace kolo
