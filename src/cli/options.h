#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "kolo/base/text.h"
#include "kolo/config/run_config.h"
#include "kolo/run/launch_ranks.h"

// Options with a value. CLI11 ignores empty values and takes the next option for a value; these
// throw an InputError that says what was given and what is accepted: `-n: expected a whole number
// from 1 to 1048576, got "two"`.
namespace kolo {

// Reads one value; throws through refuse_option_value().
using ReadOption = std::function<void(const std::string& text)>;

// `names` as --help shows them: "-o,--output DIR", or "data PATH" for a positional option, which is
// required.
CLI::Option* add_value_option(CLI::App& command, const std::string& names, ReadOption read,
                              const std::string& description);

// The message has the first of the names.
[[noreturn]] void refuse_option_value(const std::string& names, const std::string& expected,
                                      const std::string& text);

template <typename T>
struct AcceptedRange {
  T least, most;

  // Nothing for what is no number, or none of these.
  [[nodiscard]] std::optional<T> read(std::string_view text) const {
    const auto number = parse_number<T>(text);
    return number && *number >= least && *number <= most ? number : std::nullopt;
  }
  // "a whole number from 1 to 64", "a number from 0 to 10".
  [[nodiscard]] std::string describe() const {
    const auto* const number = std::is_integral_v<T> ? "a whole number" : "a number";
    return fmt::format("{} from {} to {}", number, least, most);
  }
};

template <typename T>
struct NumberIn {
  using Type = T;
};
template <typename T>
struct NumberIn<std::optional<T>> {
  using Type = T;
};

// `Value`: a number, or an optional one.
template <typename Value>
CLI::Option* add_number_option(CLI::App& command, const std::string& names, Value& value,
                               AcceptedRange<typename NumberIn<Value>::Type> range,
                               const std::string& description) {
  const auto read = [&value, names, range](const std::string& text) {
    const auto number = range.read(text);
    if (!number) refuse_option_value(names, range.describe(), text);
    value = *number;
  };
  return add_value_option(command, names, read, description);
}

// Returns the text; refuses an empty one and the command's own options. `what`: "a folder".
[[nodiscard]] std::string read_text(const CLI::App& command, const std::string& names,
                                    const std::string& what, const std::string& text);

// `Text`: a string, an optional one, or a path.
template <typename Text>
CLI::Option* add_text_option(CLI::App& command, const std::string& names, Text& value,
                             const std::string& what, const std::string& description) {
  const auto read = [&command, &value, names, what](const std::string& text) {
    value = read_text(command, names, what, text);
  };
  return add_value_option(command, names, read, description);
}

// In --help the choices stand for the value unless `names` have one.
CLI::Option* add_choice_option(CLI::App& command, const std::string& names, std::string& value,
                               const std::vector<std::string>& choices,
                               const std::string& description);

// Adds an option for a list such as "1,2,4". CLI11's own lists would also take the following words,
// for instance a configuration's settings.
template <typename T>
CLI::Option* add_list_option(CLI::App& command, const std::string& names, std::vector<T>& values,
                             AcceptedRange<T> range, const std::string& description) {
  const auto read = [&values, names, range](const std::string& text) {
    values.clear();
    for (const std::string& word : CLI::detail::split(text, ',')) {
      const auto number = range.read(word);
      if (!number)
        refuse_option_value(
            names, fmt::format("numbers with commas between them, each {}", range.describe()),
            text);
      values.push_back(*number);
    }
  };
  return add_value_option(command, names, read, description);
}

// Adds an option for a list of names.
CLI::Option* add_choices_option(CLI::App& command, const std::string& names,
                                std::vector<std::string>& values,
                                const std::vector<std::string>& choices,
                                const std::string& description);

// Kind of file that --output names: the endings of its name, and how to recognize an older file
// that may be replaced.
struct OutputKind {
  std::string name;                  // "a page of kolo report"
  std::vector<std::string> endings;  // ".html"; a name may also have none
  std::function<bool(const std::filesystem::path&)> is_one;
};

// InputError if the name has the ending of another kind of file, such as .npy for HDF5. Endings
// have letters, so box-0.5 has none. `what` names the command and option: "timeline: --output".
void require_ending(std::string_view what, const std::filesystem::path& file,
                    const OutputKind& kind);

// InputError unless a file of this kind can be written there: the ending is right, the folder
// exists and is writable, and an existing file is of this kind, or empty.
void require_writable(std::string_view what, const std::filesystem::path& file,
                      const OutputKind& kind);

// InputError unless files can be written in this folder, which need not exist yet.
void require_writable_folder(std::string_view what, const std::filesystem::path& folder);

// Makes the folder of a file that is to be written, and those above it. InputError where it can't.
void make_folder_of(std::string_view what, const std::filesystem::path& file);

// Name of the positional option for key.sub=value.
inline constexpr const char* settings_name = "settings";

void add_settings(CLI::App& command, std::vector<std::string>& settings,
                  const std::string& description);

// The configuration's file, --config and key.sub=value.
void add_config_options(CLI::App& command, ConfigSource& source);

inline constexpr int most_ranks = 1 << 20;
inline constexpr int most_restarts = 1000000;

// Hosts to start ranks on: --hosts or --hostfile.
struct HostOptions {
  std::string hosts, hostfile;

  [[nodiscard]] bool are_given() const { return !hosts.empty() || !hostfile.empty(); }
  // Empty if neither is given. InputError if both are, or one is wrong.
  [[nodiscard]] std::vector<Host> read() const;
};

// Heading of the options that single machines don't need, below the others in --help.
inline constexpr const char* cluster_options = "Several machines and schedulers";

void add_host_options(CLI::App& command, HostOptions& options);

// Adds --checkpoint, which chooses one of a trained run's checkpoints.
void add_checkpoint_option(CLI::App& command, std::string& checkpoint);

// Number of ranks to start: -n and --oversubscribe.
struct RankOptions {
  std::optional<int> ranks;
  bool oversubscribe = false;
  const Chosen* chosen = nullptr;  // its words and program, which each rank gets
};

// Request to start this program again as ranks, with the same words.
[[nodiscard]] LaunchRequest launch_request(const RankOptions& options, const RunConfig& config);

// Starts the ranks that -n asks for, if `check` throws nothing, and returns their exit status;
// nothing if this process is one of the ranks.
[[nodiscard]] std::optional<int> start_ranks(const RankOptions& options,
                                             const std::function<RunConfig()>& check);

// `description`: of -n.
void add_rank_options(CLI::App& command, RankOptions& options, const Chosen& chosen,
                      const std::string& description);

// Turns "--resume best" into "--resume=best", and "--resume" alone into "--resume=newest". A YAML
// file, a setting or an option after --resume is not its value.
void give_resume_its_value(std::vector<std::string>& words);

// Makes the command line of `kolo train`, with the program, resume from the newest checkpoint.
void resume_newest(std::vector<std::string>& words);

}  // namespace kolo
