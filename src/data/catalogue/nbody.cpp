#include "kolo/data/nbody.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/catalogue/dataset_settings.h"

namespace kolo::datasets {

struct Nbody {
  std::string train_path;  // HDF5 file, or prefix_data.npy beside prefix_label.npy; required
  std::string valid_path;  // unless synthetic
  BoxMode mode = BoxMode::lowmem;
  std::int64_t crop = 64;                   // its edge, in cells
  std::int64_t box_size = 128;              // the edge of a synthetic box
  Rotations rotations = Rotations::vector;  // validation: the same

  void check(const RefuseKey& refuse) const;
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] std::string samples() const { return "crops"; }
  [[nodiscard]] Datasets imitate(const DatasetRequest& request, std::int64_t) const {
    Nbody synthetic = *this;
    synthetic.mode = BoxMode::synthetic;
    synthetic.box_size = std::max(box_size, crop);
    return synthetic.make(request);
  }
};

template <typename Field>
void visit(Field& field, Nbody& nbody) {
  field("train_path", nbody.train_path, PathText{});
  field("valid_path", nbody.valid_path, PathText{});
  field("mode", nbody.mode, AnyName{});
  field("crop", nbody.crop, positive.up_to(most_cells));
  field("box_size", nbody.box_size, positive.up_to(most_cells));
  field("rotations", nbody.rotations, AnyName{});
}

void Nbody::check(const RefuseKey& refuse) const {
  constexpr std::string_view reason =
      "data nbody needs a simulation box, an HDF5 file or a pair of .npy files (kolo data nbody "
      "--size 64 -o data/nbody/box.h5 makes one), or mode: synthetic";
  if (mode != BoxMode::synthetic && train_path.empty()) refuse("train_path", reason);
  if (mode != BoxMode::synthetic && valid_path.empty()) refuse("valid_path", reason);
  if (mode == BoxMode::synthetic && box_size < crop) {
    refuse("box_size", fmt::format("a box of {} cells has no crops of {}; make it larger, or "
                                   "data.crop smaller",
                                   box_size, crop));
  }
}

// Validation crops are drawn and turned like the others, but the same in every epoch, so that
// epochs and runs compare.
Datasets Nbody::make(const DatasetRequest& request) const {
  const bool has_files = mode != BoxMode::synthetic;
  NbodyOptions options{.mode = mode, .box_size = box_size, .crop = crop, .rotations = rotations};
  options.seed = request.seed;
  if (has_files) options.file = train_path;
  options.samples = request.n_train.value();
  const auto read = [&](std::string_view key) {
    return at_key(request, has_files ? key : "mode",
                  [&] { return std::make_shared<NbodyDataset>(options); });
  };
  auto training = read("train_path");
  if (has_files) options.file = valid_path;
  options.samples = request.n_valid.value();
  options.seed = request.seed + 1;
  options.varies_with_epoch = false;
  auto validation = read("valid_path");
  auto warnings = training->warnings();
  warnings.insert(warnings.end(), validation->warnings().begin(), validation->warnings().end());
  return {std::move(training), std::move(validation), {}, std::move(warnings)};
}

DatasetEntry nbody() {
  auto entry = entry_of<Nbody>("nbody", "crops of simulation boxes, with fields for targets");
  entry.needs_n_train = "data nbody needs the number of crops per epoch";
  entry.needs_n_valid = "data nbody needs the number of crops a validation has";
  entry.validation_key = "valid_path";
  return entry;
}

}  // namespace kolo::datasets
