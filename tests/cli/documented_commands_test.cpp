// The commands that the documents show are those of this program.
#include <wordexp.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include <gmock/gmock.h>

#include "cli/program.h"
#include "kolo/base/file.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// As a shell splits a line, up to where another command or a comment begins.
Words split_like_shell(std::string line) {
  for (const auto* const end : {" #", " |", " >", " &", ";"})
    line.resize(std::min(line.size(), line.find(end)));
  wordexp_t expanded{};
  if (wordexp(line.c_str(), &expanded, WRDE_NOCMD) != 0)
    throw std::runtime_error("a shell does not understand " + line);
  Words words(expanded.we_wordv, expanded.we_wordv + expanded.we_wordc);
  wordfree(&expanded);
  return words;
}

// Neither what kolo has said ("kolo run: rank 0 ...", "kolo train ... (kolo 0.1.0 on vm)") nor a
// synopsis with [OPTIONS].
bool is_command(const std::string& line) {
  return line.starts_with("kolo ") && line.find(" [") == line.npos &&
         line.find("(kolo ") == line.npos && !line.starts_with("kolo run: ");
}

// The words after "kolo" of all such lines in a document's blocks, without those that are shown
// with the error that they get.
std::vector<Words> commands_in(const fs::path& document) {
  std::vector<Words> commands;
  std::istringstream lines(read_text_file(document));
  bool is_inside = false, is_newest_ok = false;  // a command that no error has followed yet
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_inside = !is_inside;
      is_newest_ok = false;
    }
    if (line.starts_with("kolo: ") && std::exchange(is_newest_ok, false)) commands.pop_back();
    if (line.starts_with("$ ")) line.erase(0, 2);
    if (!is_inside || !is_command(line)) continue;
    for (std::string rest; line.ends_with('\\') && std::getline(lines, rest);)
      line = line.substr(0, line.size() - 1) + rest;
    auto words = split_like_shell(line);
    words.erase(words.begin());
    commands.push_back(std::move(words));
    is_newest_ok = true;
  }
  return commands;
}

// Commands in the comments of a configuration: on lines of their own, or in a sentence as `...`.
std::vector<Words> commands_in_comments(const fs::path& configuration) {
  std::vector<Words> commands;
  std::istringstream lines(read_text_file(configuration));
  for (std::string line; std::getline(lines, line);) {
    const auto comment = std::min(line.find("# "), line.size());
    line.erase(0, std::min(line.find_first_not_of("# ", comment), line.size()));
    if (const auto quoted = line.find("`kolo "); quoted != line.npos)
      line = line.substr(quoted + 1, line.find('`', quoted + 1) - quoted - 1);
    // An explanation may follow a command after several blanks.
    line.resize(std::min(line.size(), line.find("   ")));
    if (!is_command(line)) continue;
    auto words = split_like_shell(line);
    words.erase(words.begin());
    if (words.size() > 1) commands.push_back(std::move(words));  // not just a command's name
  }
  return commands;
}

// Lessons in the order of their numbers, 10 after 9.
std::vector<fs::path> documents_in(const fs::path& folder) {
  std::vector<fs::path> documents;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".md") documents.push_back(entry.path());
  std::ranges::sort(documents, {}, [](const fs::path& document) {
    const auto name = document.filename().string();
    return std::pair(std::atoi(name.c_str()), name);
  });
  return documents;
}

// Without these options and their values.
Words without(Words words, const Words& options) {
  for (auto word = words.begin(); word != words.end();)
    word =
        std::ranges::find(options, *word) == options.end() ? word + 1 : words.erase(word, word + 2);
  return words;
}

// Replaces slow work by a check, and reports of missing runs by --help.
Words without_work(Words words) {
  if (words[0] == "bench") words = without(std::move(words), {"--steps", "--warmup", "--trials"});
  // Large samples, whose time is what a page is about.
  if (std::ranges::find(words, "data.crop=128") != words.end()) {
    std::ranges::replace(words, std::string("data.crop=128"), std::string("data.crop=32"));
    std::ranges::replace(words, std::string("data.box_size=128"), std::string("data.box_size=32"));
  }
  const Words instead = words[0] == "train"                          ? Words{"--show-config"}
                        : words[0] == "scale" || words[0] == "sweep" ? Words{"--dry-run"}
                        : words[0] == "bench"
                            ? Words{"--steps", "1", "--warmup", "0", "--trials", "1"}
                        : words[0] == "data" ? Words{}
                                             : Words{"--help"};
  words.insert(words.end(), instead.begin(), instead.end());
  return words;
}

TEST(DocumentedCommands, AreUnderstood) {
  int count = 0;
  for (const fs::path folder : {DOCUMENTS "/..", DOCUMENTS "/use", DOCUMENTS "/use/tutorial",
                                DOCUMENTS "/library", DOCUMENTS "/inside"}) {
    for (const auto& document : documents_in(folder)) {
      for (const auto& words : commands_in(document)) {
        CommandLine program;
        EXPECT_NO_THROW((void)program.parse(words))
            << document << ": " << CLI::detail::join(words, " ");
        ++count;
      }
    }
  }
  EXPECT_GT(count, 80);
}

TEST(DocumentedCommands, ThoseOfConfigurationsAreUnderstood) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(KOLO_CONFIGS)) {
    if (entry.path().extension() != ".yaml") continue;
    for (const auto& words : commands_in_comments(entry.path())) {
      CommandLine program;
      EXPECT_NO_THROW((void)program.parse(words))
          << entry.path() << ": " << CLI::detail::join(words, " ");
      ++count;
    }
  }
  EXPECT_GT(count, 15);
}

// Commands run in order in one folder, because later pages use the data of earlier ones. Commands
// for GPUs and Slurm must get as far as saying that there is none.
TEST(DocumentedCommands, TheTutorialsCanBeDone) {
  const TemporaryFolder folder;
  fs::create_directory_symlink(KOLO_CONFIGS, folder / "configs");
  for (const auto& document : documents_in(DOCUMENTS "/use/tutorial")) {
    for (const auto& words : commands_in(document)) {
      if (words[0] == "run") continue;  // of programs that a reader builds, as install tests do
      const auto result = run_in_fork([&] { return run_program(without_work(words)); },
                                      {.working_directory = folder.path()});
      const bool lacks_gpu =
          std::ranges::find(words, "device.kind=cuda") != words.end() &&
          result.errors.find("there is no GPU that kolo can use") != result.errors.npos;
      const bool lacks_slurm =
          result.errors.find("there is no sbatch in PATH") != result.errors.npos;
      EXPECT_TRUE(result.exit_code == 0 || lacks_gpu || lacks_slurm)
          << document << ": " << CLI::detail::join(words, " ") << "\n"
          << result.errors;
    }
  }
}

}  // namespace
}  // namespace kolo::testing
