#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/data/dataset.h"

// Parts of samples, of datasets that read whole ones.
namespace kolo {

namespace {

using Shape = std::vector<std::int64_t>;

std::string text_of(std::span<const RowRange> rows) {
  std::string text;
  for (const auto& range : rows)
    text += fmt::format("{}{} to {}", text.empty() ? "" : ", ", range.begin, range.end);
  return text;
}

// Shape of a part of a field [channels, rows along each axis].
Shape shape_of_part(const Shape& whole, std::span<const RowRange> rows, std::string_view what) {
  bool fits = whole.size() == rows.size() + 1;
  for (std::size_t i = 0; fits && i < rows.size(); ++i)
    fits = rows[i].begin >= 0 && !rows[i].is_empty() && rows[i].end <= whole[i + 1];
  if (!fits) {
    throw Error(
        fmt::format("data: rows {} of {} of [{}]: expected a range inside each axis after "
                    "the channels",
                    text_of(rows), what, fmt::join(whole, ", ")));
  }
  Shape part{whole[0]};
  for (const auto& range : rows) part.push_back(range.size());
  return part;
}

SampleLayout layout_of_part(SampleLayout layout, std::span<const RowRange> rows) {
  layout.input_shape = shape_of_part(layout.input_shape, rows, "inputs");
  if (layout.classes == 0)
    layout.target_shape = shape_of_part(layout.target_shape, rows, "targets");
  return layout;
}

class DatasetPart final : public Dataset {
 public:
  DatasetPart(std::shared_ptr<const Dataset> whole, std::span<const RowRange> rows)
      : whole_(std::move(whole)),
        rows_(rows.begin(), rows.end()),
        layout_(layout_of_part(whole_->layout(), rows)) {}

  [[nodiscard]] std::int64_t size() const override { return whole_->size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override;

 private:
  void copy_part(std::vector<float>& whole, const Shape& shape, std::span<float> out) const;

  std::shared_ptr<const Dataset> whole_;
  std::vector<RowRange> rows_;
  SampleLayout layout_;
};

void DatasetPart::copy_part(std::vector<float>& whole, const Shape& shape,
                            std::span<float> out) const {
  const c10::InferenceMode without_autograd;
  auto part = torch::from_blob(whole.data(), shape, torch::kFloat32);
  for (std::size_t i = 0; i < rows_.size(); ++i)
    part = part.narrow(static_cast<std::int64_t>(i) + 1, rows_[i].begin, rows_[i].size());
  torch::from_blob(out.data(), part.sizes(), torch::kFloat32).copy_(part);
}

void DatasetPart::read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const {
  check_read(index, place, static_cast<std::size_t>(layout_.input_size()),
             static_cast<std::size_t>(layout_.target_size()));
  const auto& layout = whole_->layout();
  const bool has_fields = layout.classes == 0;
  std::vector<float> input(static_cast<std::size_t>(layout.input_size()));
  std::vector<float> target(has_fields ? static_cast<std::size_t>(layout.target_size()) : 0);
  whole_->read(index, epoch, {input, place.label, target});
  copy_part(input, layout.input_shape, place.input);
  if (has_fields) copy_part(target, layout.target_shape, place.target);
}

}  // namespace

std::shared_ptr<const Dataset> part_of_samples(std::shared_ptr<const Dataset> whole,
                                               std::span<const RowRange> rows) {
  (void)layout_of_part(whole->layout(), rows);
  if (auto part = whole->part(rows)) return part;
  return std::make_shared<DatasetPart>(std::move(whole), rows);
}

}  // namespace kolo
