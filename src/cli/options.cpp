#include "cli/options.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "run/resume.h"

namespace kolo {

namespace {

// First name of an option: "-o", or "FILE" for a positional one.
std::string first_name(const std::string& names) {
  auto name = names.substr(0, names.find_first_of(", "));
  if (!name.starts_with('-')) std::ranges::transform(name, name.begin(), ::toupper);
  return name;
}

void require_choice(const std::string& names, const std::vector<std::string>& choices,
                    const std::string& word, const std::string& text) {
  if (std::ranges::find(choices, word) != choices.end()) return;
  if (text.empty()) refuse_option_value(names, join(choices, " or "), text);
  const auto near = nearest(word, choices);
  throw InputError(fmt::format("{}: expected {}{}, got {}{}", first_name(names),
                               choices.size() > 1 ? "one of " : "", join(choices), quote(text),
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

}  // namespace

void refuse_option_value(const std::string& names, const std::string& expected,
                         const std::string& text) {
  throw InputError(fmt::format("{}: expected {}, got {}", first_name(names), expected,
                               text.empty() ? "nothing" : quote(text)));
}

CLI::Option* add_value_option(CLI::App& command, const std::string& names, ReadOption read,
                              const std::string& description) {
  const auto blank = names.find(' ');
  return command.add_option_function<std::string>(names.substr(0, blank), read, description)
      ->type_name(names.substr(blank + 1))
      ->required(!names.starts_with('-'));
}

std::string read_text(const CLI::App& command, const std::string& names, const std::string& what,
                      const std::string& text) {
  const bool is_option = text.starts_with('-') &&
                         command.get_option_no_throw(text.substr(0, text.find('='))) != nullptr;
  // "-o=DIR": CLI11 takes what follows the letter.
  const bool has_equals = text.starts_with('=') && first_name(names).size() == 2;
  if (text.empty() || is_option || has_equals) refuse_option_value(names, what, text);
  return text;
}

CLI::Option* add_choice_option(CLI::App& command, const std::string& names, std::string& value,
                               const std::vector<std::string>& choices,
                               const std::string& description) {
  const auto read = [&value, names, choices](const std::string& text) {
    require_choice(names, choices, text, text);
    value = text;
  };
  const bool has_value = names.find(' ') != std::string::npos;
  return add_value_option(command, has_value ? names : names + " " + join(choices, "|"), read,
                          description);
}

CLI::Option* add_choices_option(CLI::App& command, const std::string& names,
                                std::vector<std::string>& values,
                                const std::vector<std::string>& choices,
                                const std::string& description) {
  const auto read = [&values, names, choices](const std::string& text) {
    values = CLI::detail::split(text, ',');  // one that is empty of an empty text
    for (const auto& word : values) require_choice(names, choices, word, text);
  };
  return add_value_option(command, names, read, description);
}

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(std::string_view what, const fs::path& path, std::string_view reason) {
  throw InputError(fmt::format("{} {}: {}", what, path.string(), reason));
}

void require_writable_in(std::string_view what, const fs::path& path, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    refuse(what, path, fmt::format("there is no folder {}", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0) {
    refuse(what, path,
           system_error_text(fmt::format("cannot write in {}", folder.string()), errno));
  }
}

}  // namespace

void require_ending(std::string_view what, const fs::path& file, const OutputKind& kind) {
  const auto ending = file.extension().string();
  const bool has_letter =
      std::ranges::any_of(ending, [](unsigned char letter) { return std::isalpha(letter) != 0; });
  if (!has_letter || std::ranges::find(kind.endings, ending) != kind.endings.end()) return;
  refuse(what, file,
         fmt::format("what is written is {}, expected a name that ends with {}, or without an "
                     "ending",
                     kind.name, join(kind.endings, " or ")));
}

void require_writable(std::string_view what, const fs::path& file, const OutputKind& kind) {
  std::error_code error;
  const auto status = fs::status(file, error);
  if (file.empty() || !file.has_filename()) refuse(what, file, "expected the name of a file");
  if (fs::is_directory(status)) refuse(what, file, "is a folder; name a file");
  require_ending(what, file, kind);
  require_writable_in(what, file, fs::absolute(file, error).parent_path());
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) refuse(what, file, "is there, and no file; name another");
  if (fs::file_size(file, error) == 0 || kind.is_one(file)) return;
  refuse(what, file,
         fmt::format("is there and is not {}; it would be lost: choose another name, or remove it",
                     kind.name));
}

void require_writable_folder(std::string_view what, const fs::path& folder) {
  std::error_code error;
  if (folder.empty()) refuse(what, folder, "expected the name of a folder");
  if (fs::exists(folder, error)) {
    if (!fs::is_directory(folder, error)) refuse(what, folder, "is there, and no folder");
    return require_writable_in(what, folder, folder);
  }
  auto above = fs::absolute(folder, error).lexically_normal();
  while (above.has_relative_path() && !fs::exists(above, error)) above = above.parent_path();
  require_writable_in(what, folder, above);
}

void make_folder_of(std::string_view what, const fs::path& file) {
  const auto folder = fs::absolute(file).parent_path();
  require_writable_folder(what, folder);
  fs::create_directories(folder);
}

void add_settings(CLI::App& command, std::vector<std::string>& settings,
                  const std::string& description) {
  command.add_option(settings_name, settings, description)->type_name("");
}

void add_config_options(CLI::App& command, ConfigSource& source) {
  add_text_option(command, "file FILE", source.file, "the name of a YAML file",
                  "The configuration: a YAML file");
  add_settings(command, source.overrides, "key.sub=value: settings that replace the file's");
  add_text_option(command, "--config NAME", source.name, "the name of a configuration in the file",
                  "The configuration to use in a file that holds several");
}

void add_checkpoint_option(CLI::App& command, std::string& checkpoint) {
  add_text_option(
      command, "--checkpoint best|newest|STEP", checkpoint, "best, newest or a step",
      "Checkpoint of a run: best (by accuracy, or by loss where there is none), newest, "
      "or a step's (default: best)");
}

std::vector<Host> HostOptions::read() const {
  if (!hosts.empty() && !hostfile.empty()) throw InputError("give --hosts or --hostfile, not both");
  if (!hosts.empty()) return parse_hosts(hosts);
  if (!hostfile.empty()) return read_hostfile(hostfile);
  return {};
}

void add_host_options(CLI::App& command, HostOptions& options) {
  add_text_option(command, "--hosts HOSTS", options.hosts, "hosts such as node1:2,node2:2",
                  "Hosts and their slots: node1:2,node2:2")
      ->group(cluster_options);
  add_text_option(command, "--hostfile FILE", options.hostfile, "a file with a line for each host",
                  "File with a line for each host")
      ->group(cluster_options);
}

LaunchRequest launch_request(const RankOptions& options, const RunConfig& config) {
  LaunchRequest request{.ranks = options.ranks.value_or(1),
                        .oversubscribe = options.oversubscribe,
                        .command = {own_program()},
                        .threads = config.device.intra_threads,
                        .end_together = true,
                        .launcher = config.communication.launcher,
                        .main = [&program = options.chosen->program](const auto& words) {
                          return run_program(words, program);
                        }};
  // Without shared memory only MPI can send messages.
  if (request.launcher == LauncherChoice::automatic &&
      config.communication.shared_memory == SharedMemory::off)
    request.launcher = LauncherChoice::mpi;
  const auto& words = options.chosen->words;
  request.command.insert(request.command.end(), words.begin(), words.end());
  return request;
}

std::optional<int> start_ranks(const RankOptions& options,
                               const std::function<RunConfig()>& check) {
  const auto environment = detect_launch_environment();
  if (options.ranks.value_or(1) > 1 && !environment.is_launched())
    return run_ranks(launch_request(options, check()),
                     {.stop = {.signal = SIGTERM, .message = "the ranks are ended"}});
  require_ranks(environment, options.ranks.value_or(0));
  return std::nullopt;
}

void add_rank_options(CLI::App& command, RankOptions& options, const Chosen& chosen,
                      const std::string& description) {
  options.chosen = &chosen;
  add_number_option(command, "-n,--ranks RANKS", options.ranks, {1, most_ranks}, description);
  command.add_flag("--oversubscribe", options.oversubscribe, "Allow more ranks than cores");
}

namespace {

constexpr std::string_view resume_option = "--resume";

// Tells whether a word is the value of --resume. An empty word (an unset variable of the shell) is
// one, so that it is refused.
bool is_choice(const std::string& word) {
  const std::filesystem::path path = word;
  std::error_code error;
  return !word.starts_with('-') && word.find('=') == std::string::npos &&
         path.extension() != ".yaml" && path.extension() != ".yml" &&
         !std::filesystem::is_regular_file(path, error);
}

}  // namespace

void give_resume_its_value(std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != resume_option) continue;
    const bool has_choice = i + 1 < words.size() && is_choice(words[i + 1]);
    words[i] += fmt::format("={}", has_choice ? words[i + 1] : newest_checkpoint);
    if (has_choice) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

void resume_newest(std::vector<std::string>& words) {
  give_resume_its_value(words);
  std::erase_if(words, [](const std::string& word) {
    return word.starts_with(fmt::format("{}=", resume_option));
  });
  words.insert(words.begin() + 2, fmt::format("{}={}", resume_option, newest_checkpoint));
}

}  // namespace kolo
