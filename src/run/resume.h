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
  std::int64_t step = 0, epoch = 0;  // done
  std::int64_t position = 0;         // samples of the epoch under way, 0 between two epochs
  std::int64_t best_epoch = 0;
  int ranks = 1;
  std::int64_t samples = 0;   // of an epoch
  nlohmann::json made_with;   // see made_with_here()
  std::filesystem::path run;  // folder

  // Tells whether the checkpoint is one of `folder`'s own.
  [[nodiscard]] bool is_in(const RunFolder& folder) const;
};

// Differences between the run so far and the run that is resumed.
struct ResumeChanges {
  std::vector<SettingChange> settings;     // except description and output_dir
  std::vector<std::string> of_data_order;  // reasons why samples come in another order
  std::string of_steps;  // ranks, samples per step and rate in one line; empty: as before
};

// Compares with the checkpoint, and with the config.yaml of its run (without one nothing differs).
// `samples` and `steps_of_epoch`: of an epoch now. Data may lie elsewhere if there are as many
// samples.
[[nodiscard]] ResumeChanges changes_since(const ResumePoint& point, const RunConfig& config,
                                          const ModelCatalogue& models, int ranks,
                                          std::int64_t samples, std::int64_t steps_of_epoch);

// Describes changes: "seed is 2 instead of 1, ...".
[[nodiscard]] std::string describe(const std::vector<SettingChange>& changes);

// InputError when the order of samples changes.
void require_same_data_order(const ResumeChanges& changes);

// Sentence on a finished run: how many epochs, the best, and how to train longer. Empty where
// anything is left to do, such as the summary. InputError for a stopped run that has passed the end
// now configured.
[[nodiscard]] std::string describe_if_finished(const ResumePoint& point, const RunConfig& config,
                                               const RunFolder& folder);

// Facts of this process that a run's bits depend on: the processor, the threads of a rank, and the
// versions of the libraries that compute.
[[nodiscard]] nlohmann::json made_with_here();

// Describes differences: "threads per rank 1 instead of 2, LibTorch 2.6.0 instead of 1.13.0"; empty
// where nothing differs, or the checkpoint doesn't tell.
[[nodiscard]] std::string describe_other_making(const nlohmann::json& before,
                                                const nlohmann::json& now);

// Folder of the checkpoint that `choice` names: "newest", "best", a step of `folder`, or the path
// of any checkpoint. InputError when there is none: it names those that exist.
[[nodiscard]] std::filesystem::path find_checkpoint(const RunFolder& folder,
                                                    const std::string& choice);

// Reads a folder's checkpoint. InputError when it is damaged.
[[nodiscard]] LoadedCheckpoint load_named(const std::filesystem::path& path,
                                          CheckpointReading reading);

// Reads the checkpoint that `choice` names, or the "newest" undamaged one. InputError when there is
// none, or the named one is damaged. `warn` is told of damaged ones that are passed over.
[[nodiscard]] LoadedCheckpoint load_chosen(const RunFolder& folder, const std::string& choice,
                                           const std::function<void(const std::string&)>& warn,
                                           CheckpointReading reading);

// Error: the state is not kolo's.
[[nodiscard]] ResumePoint resume_point(const LoadedCheckpoint& loaded);

// Reads names, shapes and types of the weights that model.init_from gives instead of the seed's,
// not their values. InputError, with the setting's place: there is no such file, folder or
// checkpoint, it can't be read, or no parameter fits the network by name and shape.
void require_initial_weights(const RunConfig& config, const torch::nn::Module& network);

// Gives all ranks' networks the values, which rank 0 reads. The same errors on rank 0. `log`: of
// rank 0. Collective.
void load_initial_weights(const RunConfig& config, const Communicator& communicator,
                          torch::nn::Module& network, RunLog* log);

}  // namespace kolo
