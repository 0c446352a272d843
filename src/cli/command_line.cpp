#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cli/options.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/cli/run_main.h"
#include "kolo/comm/launcher.h"
#include "kolo/run/launch_ranks.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

// Options of the courses' scripts that kolo lacks, and what to do instead.
constexpr std::pair<std::string_view, std::string_view> course_options[] = {
    {"-d", "several ranks always work together; leave it out"},
    {"--distributed", "several ranks always work together; leave it out"},
    {"--enable_apex", "kolo's optimizers are fused in any case; leave it out"},
    {"--enable_jit", "kolo's networks are compiled in any case; leave it out"},
    {"--disable_broadcast_buffers",
     "steps send no buffers in any case, validations take rank 0's; leave it out"},
    {"--enable_manual_profiling", "use --timeline"},
    {"-v", "out.log in the run's folder says more; leave it out"},
    {"--verbose", "out.log in the run's folder says more; leave it out"},
    {"--noddp",
     "ranks that don't average their gradients train networks of their own; kolo bench --profile "
     "tells what communication costs"},
    {"--enable_benchy", "kolo bench FILE measures loading and training, apart and together"},
    {"--interactive", "kolo eval RUN measures what was trained, kolo report RUN shows how"},
    {"--yaml_config", "the configuration's file is named without an option"},
    {"--run_num", "runs are told apart by their folders: --output DIR"}};

using Words = std::span<const std::string>;

// Name of a command without "kolo": "data fetch"; empty for the program itself.
std::string name_in_program(const CLI::App& command) {
  const auto name = full_name(command);
  const auto blank = name.find(' ');
  return blank == std::string::npos ? "" : name.substr(blank + 1);
}

// Beginning of a message: "data fetch: "; empty for the program itself.
std::string speaker(const CLI::App& command) {
  const auto name = name_in_program(command);
  return name.empty() ? "" : name + ": ";
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// The command that the words name. InputError suggests "train" for "trian": CLI11 only says that an
// argument was not expected, or that a command is missing.
const CLI::App& known_command(const CLI::App& app, Words words) {
  const auto names = command_names(app);
  if (names.empty() || (!words.empty() && words[0].starts_with('-'))) return app;
  if (words.empty()) {
    throw InputError(fmt::format("{}name a command: {}; see {} --help", speaker(app), join(names),
                                 full_name(app)));
  }
  if (std::ranges::find(names, words[0]) != names.end())
    return known_command(*app.get_subcommand(words[0]), words.subspan(1));
  const auto ending = std::filesystem::path(words[0]).extension();
  if (app.get_parent() == nullptr && (ending == ".yaml" || ending == ".yml"))
    throw InputError(fmt::format("expected a command ({}), got the file {}; to train: {} train {}",
                                 join(names), words[0], app.get_name(), words[0]));
  const auto near = nearest(words[0], names);
  throw InputError(fmt::format("unknown command {}{}; the commands are {}", quote(words[0]),
                               near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near),
                               join(names)));
}

void refuse_course_options(const CLI::App& command, Words words) {
  if (command.get_name() != "train") return;
  for (const auto& word : words) {
    const auto name = word.substr(0, word.find('='));
    const auto* const found =
        std::ranges::find(course_options, name, [](const auto& option) { return option.first; });
    if (found != std::end(course_options))
      throw InputError(fmt::format("{}{}: {}", speaker(command), name, found->second));
  }
}

// Refuses options without a value, and flags with one. In "--output= training.n_epochs=2", where a
// shell variable was empty, CLI11 would take the next word for the value. Options after the program
// of `kolo run` are not kolo's; returns the number of words before it.
std::size_t require_values(const CLI::App& command, Words words) {
  const bool has_program = command.get_prefix_command();
  for (std::size_t index = has_program ? 1 : 0; index < words.size(); ++index) {
    const auto& word = words[index];
    const auto name = word.substr(0, word.find('='));
    const bool is_option = word.starts_with('-') && word != "--";
    const auto* const option = is_option ? command.get_option_no_throw(name) : nullptr;
    const bool wants_value = option != nullptr && takes_value(*option);
    if (option != nullptr && !wants_value && name != word) {
      throw InputError(fmt::format("{}{} takes no value, got {}", speaker(command), name,
                                   quote(word.substr(name.size() + 1))));
    }
    const bool is_last = index + 1 == words.size() && name == word;
    const bool is_empty = name.starts_with("--") && name.size() + 1 == word.size();
    if (wants_value && (is_empty || is_last)) {
      throw InputError(fmt::format("{}expected {} after {}, got nothing", speaker(command),
                                   option->get_type_name(), word));
    }
    if (!has_program) continue;
    if (!is_option) return index;
    if (wants_value && name == word) ++index;
  }
  return words.size();
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_group().empty()) continue;
    for (const auto& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

// Suggestion for an unknown option: "--output" for "--ouput", "optimizer.lr=0.1" for "--lr 0.1".
std::string meant_by(const CLI::App& command, const std::string& word, Words words) {
  const auto name = word.substr(0, word.find('='));
  const auto bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  const auto near = nearest(bare, option_names(command));
  const bool takes_settings = command.get_option_no_throw(settings_name) != nullptr;
  const auto setting = takes_settings ? nearest_setting(bare) : "";
  const bool is_exact = setting.ends_with(bare) && !bare.empty();
  if (!near.empty() && !is_exact) return "--" + near;
  if (setting.empty()) return {};
  std::string value = word.size() > name.size() ? word.substr(name.size() + 1) : "VALUE";
  const auto given = std::ranges::find(words, word);
  if (word == name && given != words.end() && given + 1 != words.end() &&
      !(given + 1)->starts_with('-') && (given + 1)->find('=') == std::string::npos)
    value = *(given + 1);
  return fmt::format("{}={}", setting, value);
}

[[noreturn]] void refuse_extra(const CLI::App& command, Words words) {
  refuse_course_options(command, words);
  const auto extra = command.remaining(true);
  const auto& word = extra.empty() ? words.back() : extra.front();
  const auto meant = word.starts_with('-') ? meant_by(command, word, words) : "";
  const bool is_option = word.starts_with('-');
  throw InputError(fmt::format("{}{} {}{}", speaker(command),
                               is_option ? "unknown option" : "unexpected",
                               is_option ? word : quote(word),
                               meant.empty() ? fmt::format("; see {} --help", full_name(command))
                                             : fmt::format(", did you mean {}?", meant)));
}

[[noreturn]] void refuse(const CLI::App& command, std::string_view reason) {
  throw InputError(
      fmt::format("{}{}; see {} --help", speaker(command), reason, full_name(command)));
}

// Refuses a command that lacks a required option.
[[noreturn]] void refuse_missing(const CLI::App& command, Words words, const std::string& reason) {
  // The required option may be there, but misspelt.
  const auto extra = command.remaining(true);
  const bool has_program = command.get_prefix_command();
  if (!has_program && !extra.empty() && extra.front().starts_with('-'))
    refuse_extra(command, words);
  for (const CLI::Option* const option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const auto name = option->get_positional() ? "" : option->get_name(false, true) + " ";
    refuse(command, fmt::format("{}{} is missing: {}", name, option->get_type_name(),
                                option->get_description()));
  }
  refuse(command, reason);
}

// Refuses an option that is given several times.
void refuse_repeated(const CLI::App& command, Words words) {
  for (const CLI::Option* const option : command.get_options()) {
    const auto is_it = [&](const auto& word) {
      return word.starts_with('-') && option->check_name(word.substr(0, word.find('=')));
    };
    const auto count = std::ranges::count_if(words, is_it);
    if (count < 2 || !takes_value(*option) || option->get_items_expected_max() != 1) continue;
    const auto& given = *std::ranges::find_if(words, is_it);
    throw InputError(fmt::format("{}{} is given {} times; give it once", speaker(command),
                                 given.substr(0, given.find('=')), count));
  }
}

}  // namespace

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

std::string full_name(const CLI::App& command) {
  const auto* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

CommandLine::CommandLine(Program program)
    : app_("Data-parallel deep-learning training on LibTorch and MPI, on CPUs", program.name),
      chosen_{.program = std::move(program)} {
  app_.formatter(make_help_formatter());
  app_.set_version_flag("--version", "kolo " KOLO_VERSION);
  app_.require_subcommand(1);
  std::vector<void (*)(CLI::App&, Chosen&)> commands = {
      add_train_command, add_eval_command,  add_predict_command, add_report_command,
      add_bench_command, add_scale_command, add_sweep_command};
  const std::string examples =
      "Examples:\n"
      "  kolo doctor                                   check this machine\n"
      "  kolo train configs/hello.yaml                 train for a few seconds\n"
      "  kolo train configs/fashion_mnist.yaml -n 2    train on two ranks\n"
      "  kolo init data/pictures                       a configuration for your data\n"
      "  kolo scale configs/fashion_mnist.yaml --ranks 1,2\n"
      "                                                compare numbers of ranks\n"
      "  kolo sweep configs/fashion_mnist.yaml optimizer.lr=0.01,0.001\n"
      "                                                compare values of settings\n"
      "  kolo report results/fashion_mnist             a page of curves and tables\n"
      "  kolo run -n 4 ./my_training                   start ranks of any program\n\n";
  if (chosen_.program.is_kolo) {
    commands.insert(commands.begin(), add_init_command);
    commands.insert(commands.end(),
                    {add_data_command, add_doctor_command, add_run_command, add_timeline_command});
  }
  app_.footer(
      fmt::format("{}{} help COMMAND says more. Exit status: 0 done, 1 failed, 2 wrong "
                  "input, 75 stopped on request after a checkpoint.",
                  chosen_.program.is_kolo ? examples : "", app_.get_name()));
  for (const auto add : commands) add(app_, chosen_);
  app_.add_subcommand("help",
                      fmt::format("Show the help of a command: {} help train", app_.get_name()));
}

std::function<int()> CommandLine::parse(std::vector<std::string> words) {
  chosen_.words = words;
  // "kolo help data fetch" is "kolo data fetch --help".
  if (!words.empty() && words[0] == "help" && (words.size() == 1 || !words[1].starts_with('-'))) {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  const auto& command = known_command(app_, words);
  if (!words.empty() && words[0] == "train") give_resume_its_value(words);
  const auto own = require_values(command, words);
  // Ends the options of `kolo run`. To CLI11 what comes after it is of the command above.
  if (own < words.size() && words[own] == "--")
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(own));
  try {
    auto reversed = words;
    std::ranges::reverse(reversed);
    app_.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return [&command] {
      const auto* const parent = command.get_parent();
      std::cout << command.help(parent == nullptr ? "" : full_name(*parent));
      return 0;
    };
  } catch (const CLI::Success& wanted) {  // --version
    return [text = std::string(wanted.what())] {
      std::cout << text << std::endl;
      return 0;
    };
  } catch (const CLI::ExtrasError&) {
    refuse_extra(command, words);
  } catch (const CLI::RequiredError& error) {
    refuse_missing(command, words, error.what());
  } catch (const CLI::ParseError& error) {
    refuse_repeated(command, words);
    refuse(command, error.what());
  }
  return chosen_.action;
}

namespace {

// Fails where something that a command has printed could not be written. A training has its result
// in its folder, so it only warns. Rank 0 prints for all.
void require_printed(Words words) {
  if (detect_launch_environment().rank != 0) return;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout) return;
  const std::string reason =
      "not all output could be written to stdout: its disk is full, a limit of files' sizes "
      "(ulimit -f) is reached, or it is closed";
  const bool is_training = !words.empty() && words[0] == "train" &&
                           std::ranges::find(words, "--show-config") == words.end();
  if (!is_training) throw Error(reason + "; repeat the command with a stdout that takes it");
  complain(fmt::format("warning: {}; the training is complete, out.log in its folder has the lines",
                       reason));
}

}  // namespace

int run_program(const std::vector<std::string>& words, const Program& program) {
  return run_main([&] {
    CommandLine command_line(program);
    const int status = command_line.parse(words)();
    if (status == 0) require_printed(words);
    return status;
  });
}

int run_main(int argc, char** argv, const RunComponents& components) {
  const std::filesystem::path program = argv[0];
  return run_main(argv, [&] {
    return run_program({argv + 1, argv + argc}, {program.filename(), components, false});
  });
}

void end_process(int status) {
  // As exit() does, whatever comes of it: run_program() has looked at what was printed.
  std::cout.flush();
  std::clog.flush();
  (void)std::fflush(nullptr);
  // Profilers, which NVIDIA's libraries load by these variables, write at exit what they have seen.
  for (const auto* const injected : {"NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"})
    if (environment_variable(injected)) std::exit(status);
  std::_Exit(status);
}

}  // namespace kolo
