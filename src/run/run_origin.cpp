#include <chrono>
#include <string_view>

#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/train/observe/format.h"
#include "run/launch/supervise.h"
#include "run/run_folder.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

using Starts = nlohmann::ordered_json;

// Commit of the current directory; empty without git or a repository.
std::string commit_here() {
  constexpr std::chrono::seconds patience{10};  // on a busy file system
  const auto git = find_in_path("git");
  if (git.empty()) return {};
  const auto answer = probe(
      {.argv = {git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"}}, patience);
  return answer.status == 0 ? answer.output.substr(0, answer.output.find('\n')) : std::string();
}

Starts earlier_starts(const fs::path& file) {
  if (!fs::exists(file)) return Starts::array();
  const auto document = Starts::parse(read_text_file(file), nullptr, false);
  const bool is_sound =
      document.is_object() && document.contains("starts") && document["starts"].is_array();
  return is_sound ? document["starts"] : Starts::array();
}

}  // namespace

RunOrigin find_run_origin() {
  std::error_code error;
  return {.command = environment_variable(command_variable).value_or(as_typed(own_words())),
          .directory = fs::current_path(error).string(),
          .commit = commit_here(),
          .version = KOLO_VERSION,
          .host = host_name()};
}

std::string as_typed(std::vector<std::string> words) {
  if (!words.empty()) words[0] = fs::path(words[0]).filename();
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%";
  std::string text;
  for (const auto& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) {
      text += word;
      continue;
    }
    text += shell_word(word);
  }
  return text;
}

void note_run_start(const fs::path& file, const RunOrigin& origin, std::int64_t from_step) {
  Starts document{{"starts", earlier_starts(file)}};
  document["starts"].push_back({{"from_step", from_step},
                                {"time", format_moment(wall_time())},
                                {"command", origin.command},
                                {"directory", origin.directory},
                                {"commit", origin.commit},
                                {"version", origin.version},
                                {"host", origin.host}});
  // A command line may hold any bytes.
  write_file_atomically(file,
                        document.dump(2, ' ', false, Starts::error_handler_t::replace) + "\n");
}

void log_run_start(RunLog& log, const RunOrigin& origin) {
  constexpr std::size_t short_hash = 12;
  const auto is_dirty = origin.commit.ends_with("-dirty");
  log.info("{} (kolo {} on {}{}{})", origin.command, origin.version, origin.host,
           origin.commit.empty() ? "" : ", git " + origin.commit.substr(0, short_hash),
           is_dirty ? " with changes" : "");
}

}  // namespace kolo
