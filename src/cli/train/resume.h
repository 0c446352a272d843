#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/train/run_folder.h"
#include "kolo/checkpoint/checkpoint_store.h"

// Which checkpoint a run goes on from.
namespace kolo {

// What --resume says when it says nothing.
inline constexpr std::string_view newest_checkpoint = "newest";

// The folder of the checkpoint that `choice` names: "best", a step of `folder`, or the folder of
// any checkpoint. InputError when there is none: it names those that are there.
[[nodiscard]] std::filesystem::path find_checkpoint(const RunFolder& folder,
                                                    const std::string& choice);

// That folder's checkpoint, read. InputError when it is damaged.
[[nodiscard]] CheckpointStore::Loaded load_named(const std::filesystem::path& path,
                                                 CheckpointReading reading);

// The same, or the "newest" that isn't damaged, read. InputError when there is none, or the one
// that was named is damaged. `warn` is told of damaged ones that are passed over.
[[nodiscard]] CheckpointStore::Loaded load_chosen(
    const RunFolder& folder, const std::string& choice,
    const std::function<void(const std::string&)>& warn,
    CheckpointReading reading = CheckpointReading::whole);

// "--resume best" in a command line becomes "--resume=best", and so on, and "--resume" alone
// "--resume=newest"; a word behind it that is no checkpoint's name (a YAML file, a setting, an
// option) stays for itself.
void give_resume_its_value(std::vector<std::string>& words);
// Takes it out, its value with it.
void remove_resume(std::vector<std::string>& words);

// Where that leads.
struct ResumePoint {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;      // done, as are
  std::int64_t epoch = 0;     // so many epochs
  std::int64_t position = 0;  // samples of the epoch under way, 0 between two epochs
  std::int64_t best_epoch = 0;
  int ranks = 1;                        // that the run had
  std::optional<std::int64_t> samples;  // that it trained on in an epoch; older ones don't tell

  // Whether it is one of `folder`'s own.
  [[nodiscard]] bool is_in(const RunFolder& folder) const;
};

// Error: the state is not one of kolo's.
[[nodiscard]] ResumePoint resume_point(const CheckpointStore::Loaded& loaded);

}  // namespace kolo
