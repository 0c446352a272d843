#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kolo {

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
