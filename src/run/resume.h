#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/train/observe/run_log.h"
#include "run/run_folder.h"

namespace torch::nn {
class Module;
}

// Checkpoint that a run resumes from, or that is evaluated, and what is different after a resume.
namespace kolo {

struct LoadedCheckpoint;
enum class CheckpointReading;

// The default of --resume.
inline constexpr std::string_view newest_checkpoint = "newest";

// State of a run when the checkpoint was saved.
struct ResumePoint {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;      // done, as are
  std::int64_t epoch = 0;     // so many epochs
  std::int64_t position = 0;  // samples of the epoch under way, 0 between two epochs
  std::int64_t best_epoch = 0;
  int ranks = 1;                        // that the run had
  std::optional<std::int64_t> samples;  // that it trained on in an epoch; older ones don't tell
  nlohmann::json made_with;             // see made_with_here(); null: older ones don't tell
  std::filesystem::path run;            // the folder of the run that it belongs to

  // Tells whether the checkpoint is one of `folder`'s own.
  [[nodiscard]] bool is_in(const RunFolder& folder) const;
};

// Differences between the run so far and the run that is resumed.
struct ResumeChanges {
  std::vector<SettingChange> settings;  // but for where the run is and what it is called
  // Those that make samples come in another order than the run so far would have drawn them.
  std::vector<std::string> of_data_order;
  // Ranks, samples per step and rate, in one line; empty: as before.
  std::string of_steps;
};

// Compared with the config.yaml of the run that the checkpoint belongs to (none: nothing differs)
// and with what the checkpoint says. `samples`: that are trained on now, in `steps_of_epoch`. The
// place of data may differ, as long as there are as many samples.
[[nodiscard]] ResumeChanges changes_since(const ResumePoint& point, const RunConfig& config,
                                          const ModelCatalogue& models, int ranks,
                                          std::int64_t samples, std::int64_t steps_of_epoch);

// "seed is 2 instead of 1, ..."
[[nodiscard]] std::string describe(const std::vector<SettingChange>& changes);

// InputError when the order of samples changes.
void require_same_data_order(const ResumeChanges& changes);

// Sentence on a run that is done: how many epochs, the best, and how to train longer. Empty for one
// that has something left to do, its summary for instance. InputError for one that was stopped
// behind the end that it is now to have.
[[nodiscard]] std::string describe_if_finished(const ResumePoint& point, const RunConfig& config,
                                               const RunFolder& folder);

// Facts that a run's bits depend on besides its configuration, data and number of ranks.

// Facts of this process: the processor, the threads of a rank, and the versions of the libraries
// that compute, each by the name that people know it by.
[[nodiscard]] nlohmann::json made_with_here();

// "threads per rank 1 instead of 2, LibTorch 2.6.0 instead of 1.13.0"; empty where nothing differs
// or nothing is known of before (checkpoints of earlier versions).
[[nodiscard]] std::string describe_other_making(const nlohmann::json& before,
                                                const nlohmann::json& now);

// The folder of the checkpoint that `choice` names: "best", a step of `folder`, or the folder of
// any checkpoint. InputError when there is none: it names those that are there.
[[nodiscard]] std::filesystem::path find_checkpoint(const RunFolder& folder,
                                                    const std::string& choice);

// Reads that folder's checkpoint. InputError when it is damaged.
[[nodiscard]] LoadedCheckpoint load_named(const std::filesystem::path& path,
                                          CheckpointReading reading);

// Reads the one that `choice` names, or the "newest" that isn't damaged. InputError when there is
// none, or the one that was named is damaged. `warn` is told of damaged ones that are passed over.
[[nodiscard]] LoadedCheckpoint load_chosen(const RunFolder& folder, const std::string& choice,
                                           const std::function<void(const std::string&)>& warn,
                                           CheckpointReading reading);

// Error: the state is not one of kolo's.
[[nodiscard]] ResumePoint resume_point(const LoadedCheckpoint& loaded);

// Weights that a network begins with instead of those of the seed (model.init_from): of a trained
// run, or of a file (initial_weights.cpp).

// Reads the names, shapes and types that model.init_from's file has, not their values. InputError,
// with the setting's place: there is no such file, folder or checkpoint, it can't be read, or it
// has no parameter of the network's names and shapes.
void require_initial_weights(const RunConfig& config, const torch::nn::Module& network);

// Gives all ranks' networks the file's values, which rank 0 reads. The same errors on rank 0.
// `log`: of rank 0. Collective.
void load_initial_weights(const RunConfig& config, const Communicator& communicator,
                          torch::nn::Module& network, RunLog* log);

}  // namespace kolo
