#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/train/observe/tensorboard.h"
#include "kolo/report/run_record.h"

// What read_run() puts together: histories of kolo, and event files of anyone.
namespace kolo {

// How many epochs are done when so many steps are, from places where both are known: in proportion
// between them, and on at the last stretch's pace. Training begins at step 0.
class EpochOfStep {
 public:
  // Places come in order; one that is not beyond the last is left out.
  void add(double step, double epoch);
  // not_measured without any place.
  [[nodiscard]] double at(double step) const;

 private:
  std::vector<std::pair<double, double>> places_ = {{0, 0}};
};

// A run of kolo from its history.json, and from config.yaml and model.txt where they are beside it:
// without them settings and parameters are empty. `name` and `source` are left to the caller.
// InputError, naming the file: the history can't be read.
[[nodiscard]] RunRecord read_history(const std::filesystem::path& path);

// The event files of one folder, or some of them.
struct EventFolder {
  std::filesystem::path path;
  std::string part;          // training | validation, of a run that keeps a folder for each
  std::string added_to_tag;  // "/train": of add_scalars, which keeps a folder for each of its lines
  std::vector<ScalarEvent> scalars;   // those in effect
  std::int64_t other_values = 0;      // histograms, images, texts
  std::vector<std::string> warnings;  // what could not be read
};

// The files named *tfevents* in a folder itself, in the order of their names.
[[nodiscard]] std::vector<std::filesystem::path> event_files_in(
    const std::filesystem::path& folder);

// InputError: none of the files can be read; says why of the first.
[[nodiscard]] EventFolder read_event_folder(const std::filesystem::path& folder,
                                            std::span<const std::filesystem::path> files);

// The curves of a run from its folders' scalars, under kolo's names where a tag is known (see
// meaning_of_tag). Epochs come from a scalar named "epoch", from steps that count epochs, or from
// kolo's own values of each epoch; else they are unknown. Accuracies in percent are made fractions,
// which is said in `notes`.
[[nodiscard]] std::vector<Curve> curves_of_events(std::span<const EventFolder> folders,
                                                  std::vector<std::string>& notes);

// What a scalar's tag tells about it.
struct TagMeaning {
  enum class Pace : std::uint8_t { unknown, epoch, step };

  std::string quantity;  // see Curve; the tag itself where it is none of those
  std::string part;      // training | validation, or empty
  Pace pace = Pace::unknown;
  bool is_test = false;          // of a test set, which stands for validation where there is none
  bool counts_epochs = false;    // its steps are epochs, from 0: Keras writes it so
  bool is_epoch_number = false;  // its values are epochs: Lightning and others write such a scalar
};

// Reads tags as kolo ("loss/train", "step/loss"), Keras ("epoch_loss", in a folder for training and
// one for validation), Lightning ("train_loss_step", "lr-Adam") and people ("Avg loss/valid") make
// them. `folder_part`: training | validation where the file's folder says it, or empty.
[[nodiscard]] TagMeaning meaning_of_tag(std::string_view tag, std::string_view folder_part);

// training, validation, or empty: what a folder's name, or a word in a tag, says.
[[nodiscard]] std::string_view part_named(std::string_view name);

}  // namespace kolo
