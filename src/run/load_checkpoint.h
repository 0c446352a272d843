#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/observe/run_log.h"
#include "run/resume.h"
#include "run/run_folder.h"

namespace torch::nn {
class Module;
}

// The checkpoint that a run goes on from, or that is evaluated: found and read.
namespace kolo {

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
