#include <algorithm>
#include <exception>
#include <iostream>
#include <span>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/launch/launch_environment.h"
#include "cli/rank/blas.h"
#include "cli/rank/rank_guard.h"
#include "cli/train/resume.h"
#include "kolo/base/error.h"
#include "kolo/base/suggest.h"

namespace {

using namespace kolo;

// What every rank would say alike is said by one.
void complain(std::string_view message) {
  if (detect_launch_environment().rank == 0) std::cerr << "kolo: " << message << std::endl;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// "train" for "trian": CLI11 only says that an argument was not expected, or that a command is
// missing. Empty for a known one.
std::string unknown_command(const CLI::App& app, std::span<char* const> words) {
  const auto names = command_names(app);
  const std::string word = words.empty() ? "" : words[0];
  if (names.empty() || word.empty() || word[0] == '-') return {};
  if (std::ranges::find(names, word) != names.end()) {
    return unknown_command(*app.get_subcommand(word), words.subspan(1));
  }
  const auto near = nearest(word, names);
  return fmt::format("unknown command \"{}\"{}; the commands are {}", word,
                     near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near), join(names));
}

// "kolo data fetch".
std::string chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return app.get_name() + (chosen.empty() ? "" : " " + chosen_command(*chosen.front()));
}

int parse_and_run(CLI::App& app, std::function<int()>& action, int argc, char** argv) {
  if (const auto message = unknown_command(app, {argv + 1, argv + argc}); !message.empty()) {
    complain(message);
    return exit_wrong_input;
  }
  try {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words.front() == "train") give_resume_its_value(words);
    std::ranges::reverse(words);  // as CLI11 wants them
    app.parse(std::move(words));
  } catch (const CLI::Success& wanted) {  // --help, --version
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    complain(fmt::format("{}; see {} --help", error.what(), chosen_command(app)));
    return exit_wrong_input;
  }
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    relaunch_on_right_core(argv);
    CLI::App app("Data-parallel deep-learning training on LibTorch and MPI", "kolo");
    app.set_version_flag("--version", "kolo " KOLO_VERSION);
    app.require_subcommand(1);
    app.footer(
        "Examples:\n"
        "  kolo doctor                                   check this machine\n"
        "  kolo train configs/hello.yaml                 train for a few seconds\n"
        "  kolo train configs/fashion_mnist.yaml -n 2    train on two ranks\n"
        "  kolo scale configs/fashion_mnist.yaml --ranks 1,2\n"
        "                                                compare numbers of ranks\n"
        "  kolo report results/fashion_mnist             a page of curves and tables\n"
        "  kolo run -n 4 ./my_training                   start ranks of a program of yours\n\n"
        "kolo COMMAND --help says more. Exit status: 0 done, 1 failed, 2 wrong input, 75 stopped\n"
        "on request after a checkpoint.");
    std::function<int()> action;
    add_train_command(app, action);
    add_eval_command(app, action);
    add_bench_command(app, action);
    add_scale_command(app, action);
    add_run_command(app, action);
    add_timeline_command(app, action);
    add_report_command(app, action);
    add_data_command(app, action);
    add_doctor_command(app, action);
    return parse_and_run(app, action, argc, argv);
  } catch (const InputError& error) {
    complain(error.what());
    return exit_wrong_input;
  } catch (const std::exception& error) {
    // Not what all ranks would say alike.
    const int rank = detect_launch_environment().rank;
    std::cerr << fmt::format("kolo: {}{}\n", rank == 0 ? "" : describe_rank(rank) + ": ",
                             error.what());
    return exit_failed;
  }
}
