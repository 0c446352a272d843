#pragma once

#include <filesystem>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "kolo/observe/run_log.h"

namespace kolo {

// Where a run comes from, so that it can be done again: what was typed, where, with which kolo and
// which sources.
struct RunOrigin {
  std::string command;    // as a shell takes it
  std::string directory;  // that it was typed in
  std::string commit;     // of git there, "-dirty" after it where files differ; empty: none
  std::string version;    // kolo's
  std::string host;
};

// In which the ranks find what was typed: their own command lines are kolo's, where it has started
// them again.
inline constexpr const char* command_variable = "KOLO_COMMAND";

// A command's words as they were typed, as a shell takes them: the program by its name.
[[nodiscard]] std::string command_line(std::vector<std::string> words);

// Of this process, or of the one that has started the ranks. Asks git, in a process of its own:
// call it before MPI is there.
[[nodiscard]] RunOrigin find_run_origin();

// Adds a start to the file, run.json: {"starts": [{time, command, directory, commit, version,
// host}]}, the first one first. One that can't be read is begun anew.
void note_run_start(const std::filesystem::path& file, const RunOrigin& origin);

void log_run_start(RunLog& log, const RunOrigin& origin);

}  // namespace kolo
