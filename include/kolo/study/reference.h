#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/config/run_config.h"
#include "kolo/observe/sweep.h"
#include "kolo/report/results_table.h"

// Published results, and what this machine comes to with the same networks: `kolo reference`. A
// file of named configurations is the table of what there is; those with a section `reference` say
// what was published.
namespace kolo {

// The table that kolo comes with: configs/reference.yaml of the folder that this is called in, or
// else beside the program. InputError: there is neither.
[[nodiscard]] std::filesystem::path reference_file();

struct ReferenceRequest {
  std::filesystem::path file;
  std::vector<std::string> names = {};      // of its configurations; empty: all with `reference`
  std::vector<std::string> settings = {};   // "training.n_epochs=2", of all of them
  std::optional<int> seeds = std::nullopt;  // instead of reference.seeds
  int ranks = 1;                            // of a training
  bool oversubscribe = false;
  std::filesystem::path output = "results/reference";
  std::filesystem::path program = {};  // kolo, which trains; empty: this program is it
  // Is told what is done, for people.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// A configuration that somebody has published a result of.
struct ReferenceEntry {
  std::string name;
  RunConfig config;  // reference.published is set
};

// Those that are asked for, in the file's order. InputError: the file can't be read, it has no
// configuration of one of these names with a section `reference`, or a configuration is wrong.
[[nodiscard]] std::vector<ReferenceEntry> reference_entries(const ReferenceRequest& request);

// reached: the published value or a better one; missed: a worse one; failed: a training did;
// skipped: the data are not there.
enum class ReferenceVerdict : std::uint8_t { reached, missed, failed, skipped };

constexpr auto enum_names(ReferenceVerdict) {
  return std::to_array<EnumName<ReferenceVerdict>>({{ReferenceVerdict::reached, "reached"},
                                                    {ReferenceVerdict::missed, "missed"},
                                                    {ReferenceVerdict::failed, "failed"},
                                                    {ReferenceVerdict::skipped, "skipped"}});
}

// What has come of an entry.
struct ReferenceResult {
  std::string name;
  ReferenceConfig reference;
  std::vector<Trial> seeds;  // the trainings, whose only setting is the seed
  // Mean and standard deviation of the last epochs of those that are done, not of their best ones:
  // who takes the best epoch has chosen it by the very data that it is measured with.
  double found = not_measured, deviation = not_measured;
  double hours = not_measured;  // that one of them took, with the start of its processes
  ReferenceVerdict verdict = ReferenceVerdict::failed;
  std::string problem = {};  // why it failed or was skipped
};

// A pure function of what the trainings came to.
[[nodiscard]] ReferenceResult judge_reference(std::string name, const ReferenceConfig& reference,
                                              std::vector<Trial> seeds);

struct FinishedReferences {
  std::filesystem::path file, folder;
  std::vector<ReferenceResult> results;
  bool was_stopped = false;  // on request; the same call goes on

  [[nodiscard]] nlohmann::ordered_json to_json() const;
  // One line an entry, a header line first.
  [[nodiscard]] std::string to_csv() const;
};

// Trains each entry with its seeds, one after another: a sweep over `seed` in a folder of its own
// (see run_sweep, whose rules hold: what is done is not done again, what was interrupted goes on).
// Writes reference.json and reference.csv after each entry, and report.html, the curves of all
// trainings, at the end. All that can be wrong is found before the first training: InputError.
// Entries whose data are not there are skipped; where these are all, that is an InputError as well.
// The files tell of the entries of this call. Takes as long as the trainings; one thread, as for
// run_sweep, whose answers to signals hold too.
[[nodiscard]] FinishedReferences run_references(const ReferenceRequest& request);

// For people: the trainings that there are still to do, and what each would be started with. Checks
// the same, and does nothing.
[[nodiscard]] std::string describe_references(const ReferenceRequest& request);

// For people: what was published; and what was found.
[[nodiscard]] ResultsTable reference_list(const std::vector<ReferenceEntry>& entries);
[[nodiscard]] ResultsTable reference_results(const std::vector<ReferenceResult>& results);

// What reference_list() shows, for programs: an object.
[[nodiscard]] nlohmann::ordered_json reference_list_json(
    const std::filesystem::path& file, const std::vector<ReferenceEntry>& entries);

}  // namespace kolo
