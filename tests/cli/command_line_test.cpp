// Reading the command line, without running what it asks for.

#include "cli/command_line.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Words = std::vector<std::string>;

// Message for a command line; empty if it is valid.
std::string said_of(const Words& words) {
  try {
    CommandLine program;
    (void)program.parse(words);
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command);
    const auto inner = commands_of(*command);
    commands.insert(commands.end(), inner.begin(), inner.end());
  }
  return commands;
}

Words words_of(const CLI::App& command) {
  return CLI::detail::split(full_name(command).substr(5), ' ');  // without "kolo "
}

bool is_named_value(const CLI::Option& option) {
  return !option.get_positional() && takes_value(option) && !option.get_group().empty();
}

std::string first_name(const CLI::Option& option) {
  return option.get_snames().empty() ? "--" + option.get_lnames().front()
                                     : "-" + option.get_snames().front();
}

// The command with this option alone; what else is required is said only after it.
Words with(const CLI::App& command, const Words& option) {
  auto words = words_of(command);
  words.insert(words.end(), option.begin(), option.end());
  return words;
}

// Every option of every command, whatever it will be called.
template <typename Check>
void for_each_value_option(const Check& check) {
  const CommandLine program;
  int options = 0;
  for (const CLI::App* const command : commands_of(program.app())) {
    for (const CLI::Option* const option : command->get_options()) {
      if (!is_named_value(*option)) continue;
      check(*command, *option);
      ++options;
    }
  }
  EXPECT_GT(options, 40);
}

TEST(CommandLine, AnEmptyValueIsRefusedByEveryOption) {
  for_each_value_option([](const CLI::App& command, const CLI::Option& option) {
    const auto name = first_name(option);
    EXPECT_TRUE(
        says(said_of(with(command, {name, ""})), {name.substr(0, 2), "expected", "nothing"}))
        << full_name(command) << " " << name;
    if (option.get_lnames().empty()) return;
    const auto equals = "--" + option.get_lnames().front() + "=";
    EXPECT_TRUE(
        says(said_of(with(command, {equals, "training.n_epochs=2"})), {equals, "got nothing"}))
        << full_name(command) << " " << equals;
  });
}

TEST(CommandLine, NumbersAreRefusedByNameWithWhatIsAccepted) {
  const std::vector<std::string> numeric = {"RANKS", "TIMES", "STEPS",  "TRIALS", "N",
                                            "KPC",   "S",     "NUMBER", "PORT",   "N,..."};
  int checked = 0;
  for_each_value_option([&](const CLI::App& command, const CLI::Option& option) {
    if (std::ranges::find(numeric, option.get_type_name()) == numeric.end()) return;
    ++checked;
    const auto name = first_name(option);
    for (const char* const wrong : {"two", "-1", "12345678901234567890123", "1e400", "nan", "3x",
                                    "0x10", "1,,2", " 3", "'3'"}) {
      const auto message = said_of(with(command, {name, wrong}));
      EXPECT_THAT(message, AllOf(StartsWith(name + ": expected "), HasSubstr(quote(wrong))))
          << full_name(command) << " " << name << " " << wrong;
      EXPECT_LT(message.size(), 200U) << message;
    }
  });
  EXPECT_GT(checked, 15);
  EXPECT_TRUE(says(said_of({"train", "c.yaml", "-n", "2.5"}), {"-n: expected a whole number"}));
  EXPECT_TRUE(says(said_of({"data", "nbody", "--seed", "-1"}),
                   {"--seed: expected a whole number from 0 to", "\"-1\""}));
}

TEST(CommandLine, ChoicesNameTheNearest) {
  EXPECT_EQ(
      said_of({"eval", "run", "--data", "trainin"}),
      "--data: expected one of validation, training, got \"trainin\"; did you mean training?");
  EXPECT_TRUE(
      says(said_of({"bench", "c.yaml", "--mode", "sintetic"}), {"did you mean synthetic?"}));
  EXPECT_TRUE(says(said_of({"scale", "c.yaml", "--ranks", "1", "--lr-scaling", "none,lineer"}),
                   {"did you mean linear?"}));
}

TEST(CommandLine, AnOptionIsNoValueOfTheOneBeforeIt) {
  EXPECT_THAT(said_of({"train", "c.yaml", "-o", "--resume"}),
              StartsWith("-o: expected a folder, got \"--resume"));
  EXPECT_EQ(said_of({"eval", "run", "--checkpoint", "--json"}),
            "--checkpoint: expected best, newest or a step, got \"--json\"");
  EXPECT_TRUE(says(said_of({"train", "c.yaml", "-o=results"}), {"got \"=results\""}));
}

TEST(CommandLine, UnknownOptionsAndCommandsGetASuggestion) {
  const struct {
    Words given;
    const char* meant;
  } cases[] = {
      {{"train", "c.yaml", "--ouput", "x"}, "unknown option --ouput, did you mean --output?"},
      {{"train", "c.yaml", "--lr", "0.1"}, "did you mean optimizer.lr=0.1?"},
      {{"train", "c.yaml", "--lr=0.1"}, "did you mean optimizer.lr=0.1?"},
      {{"train", "c.yaml", "--seed", "3"}, "did you mean seed=3?"},
      {{"train", "c.yaml", "--momentum"}, "did you mean optimizer.momentum=VALUE?"},
      {{"train", "c.yaml", "--n-epochs", "3"}, "did you mean training.n_epochs=3?"},
      {{"eval", "run", "--jsn"}, "did you mean --json?"},
      {{"doctor", "now"}, "doctor: unexpected \"now\""},
      {{"qqqqqq"},
       "the commands are init, train, eval, predict, report, bench, scale, sweep, data, doctor, "
       "run, timeline"},
      {{"c.yaml"}, "got the file c.yaml; to train: kolo train c.yaml"},
      {{"trian"}, "did you mean \"train\"?"},
      {{"help", "trian"}, "did you mean \"train\"?"},
      {{"data", "ftech"}, "did you mean \"fetch\"?"},
      {{}, "name a command: init, train, "},
      {{"data"}, "data: name a command: fetch, "},
      {{"train"}, "train: FILE is missing"},
      {{"scale", "c.yaml"}, "scale: --ranks N,... is missing"},
      {{"train", "c.yaml", "-n"}, "train: expected RANKS after -n, got nothing"},
      {{"train", "c.yaml", "-o"}, "train: expected DIR after -o, got nothing"},
      {{"train", "c.yaml", "--num_epochs"}, "expected EPOCHS after --num_epochs, got nothing"},
      {{"train", "c.yaml", "-n", "2", "--ranks=3"}, "train: -n is given 2 times; give it once"},
      {{"train", "c.yaml", "--timeline=foo"}, "train: --timeline takes no value, got \"foo\""},
      {{"eval", "run", "--json=3"}, "eval: --json takes no value, got \"3\""},
      {{"train", "c.yaml", "-v"}, "train: -v: out.log in the run's folder says more"},
      {{"train", "c.yaml", "--launcher", "mpi"}, "did you mean communication.launcher=mpi?"},
      {{"train", "--yaml_config", "a.yaml"}, "train: --yaml_config: the configuration's file"},
      {{"train", "c.yaml", "--data_loader_config", "dali"}, "--data_loader_config: expected"},
      {{"train", "--verson"}, "train: unknown option --verson"},
      {{"--foo"}, "unknown option --foo; see kolo --help"},
      {{"train", "c.yaml", "--foo"}, "train: unknown option --foo; see kolo train --help"},
      {{"scale", "c.yaml", "--ranks", "1", "--job-script", "x"}, "--job-script requires --submit"},
      {{"bench", "-o", "foo"}, "bench: unknown option -o; see kolo bench --help"},
  };
  for (const auto& [given, meant] : cases)
    EXPECT_TRUE(says(said_of(given), {meant})) << join(given, " ");
}

TEST(CommandLine, WhatIsRightIsUnderstood) {
  for (const Words& words :
       std::vector<Words>{{"train", "c.yaml", "-n", "2", "training.n_epochs=3", "-o", "out"},
                          {"train", "c.yaml", "--batch_size=16", "--optimizer", "name=SGD,lr=0.1"},
                          {"run", "-n", "2", "./program", "--lr=", "--json", "-n", "two"},
                          {"run", "-n", "2", "--", "./program", "x", "--", "--lr="},
                          {"run", "--", "./program"},
                          {"report", "a", "b", "-o", "page.html"},
                          {"data", "nbody", "-o", "x.h5", "--crop", "64", "--seed", "0"},
                          {"help"},
                          {"help", "train"},
                          {"help", "data"},
                          {"help", "data", "fetch"},
                          {"--version"}})
    EXPECT_EQ(said_of(words), "") << join(words, " ");
}

TEST(CommandLine, HelpKeepsToItsWidthAndNamesEveryOption) {
  const CommandLine program;
  for (const CLI::App* const command : commands_of(program.app())) {
    const auto text = command->help();
    for (const auto& line : CLI::detail::split(text, '\n'))
      EXPECT_LE(line.size(), 100U) << full_name(*command) << ": " << line;
    for (const CLI::Option* const option : command->get_options()) {
      if (option->get_group().empty() || option->get_positional()) continue;
      EXPECT_TRUE(says(text, {first_name(*option)}));
    }
  }
}

TEST(CommandLine, HelpShowsFirstWhatMostUse) {
  const CommandLine program;
  const auto commands = program.app().help();
  for (const CLI::App* const command : commands_of(program.app())) {
    if (command->get_parent() != &program.app()) continue;
    EXPECT_TRUE(says(commands, {"  " + command->get_name(), command->get_description() + "\n"}))
        << "in one line";
  }
  for (const auto& [name, usual, other] : {std::tuple{"train", "--show-config", "--hosts"},
                                           {"scale", "--dry-run", "--submit"},
                                           {"bench", "--json", "--profile"}}) {
    const auto help = program.app().get_subcommand(name)->help();
    EXPECT_LT(help.find(usual), help.find(std::string("\n  ") + other)) << name;
  }
  EXPECT_TRUE(says(program.app().get_subcommand("scale")->help(),
                   {"\nSeveral machines and schedulers:\n  --submit slurm|pbs"}));
}

// A line is broken where it is full, not where the source's line ended.
TEST(CommandLine, ParagraphsOfTheHelpFlow) {
  const CommandLine program;
  auto commands = commands_of(program.app());
  commands.push_back(&program.app());
  for (const CLI::App* const command : commands) {
    const auto lines = CLI::detail::split(command->help(), '\n');
    bool is_footer = false;
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
      is_footer = is_footer || lines[i].starts_with("Example") || lines[i].starts_with("Exit");
      const auto& next = lines[i + 1];
      if (!is_footer || lines[i].empty() || next.empty() || next.starts_with(' ')) continue;
      if (lines[i].starts_with(' ')) continue;
      // A number stays with the word after it.
      const auto first = next.find(' ', next[0] <= '9' ? next.find(' ') + 1 : 0);
      EXPECT_GT(lines[i].size() + 1 + std::min(first, next.size()), 80U) << lines[i] << "\n"
                                                                         << next;
    }
  }
  EXPECT_TRUE(says(program.app().get_subcommand("run")->help("kolo"),
                   {"kolo run [OPTIONS] PROGRAM [ARGUMENTS...]\n"}));
}

}  // namespace
}  // namespace kolo::testing
