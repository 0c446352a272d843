#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "run/resume.h"
#include "run/run_folder.h"

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

}  // namespace kolo
