#include "kolo/data/dataset.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/aligned_values.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

void check_index(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) {
    throw Error(fmt::format("data: sample {} of a dataset of {} samples", index, size));
  }
}

constexpr std::uint32_t pool_size = 1U << 18;
constexpr std::uint32_t pool_stream = 0, sample_stream = 1;

void copy_round(const std::vector<float>& pool, std::size_t start, std::span<float> out) {
  while (!out.empty()) {
    const auto count = std::min(out.size(), pool.size() - start);
    std::copy_n(pool.begin() + static_cast<std::ptrdiff_t>(start), count, out.begin());
    out = out.subspan(count);
    start = 0;
  }
}

}  // namespace

void load_alone(const MemoryLoad& load) {
  auto memory = uninitialized<std::byte>(narrow<std::int64_t>(load.bytes));
  load.read({memory.release(), FreeAligned{}}, 0, 1);
}

std::optional<MemoryLoad> load_later_or_now(MemoryLoad load, bool later) {
  if (later) return load;
  load_alone(load);
  return std::nullopt;
}

std::int64_t SampleLayout::input_size() const {
  return checked_product(std::span<const std::int64_t>(input_shape));
}

std::int64_t SampleLayout::target_size() const {
  return classes > 0 ? 1 : checked_product(std::span<const std::int64_t>(target_shape));
}

void Dataset::check_read(std::int64_t index, const SampleSpans& place, std::size_t input_size,
                         std::size_t target_size) const {
  check_index(index, size());
  const auto found = layout().classes > 0 ? place.label.size() : place.target.size();
  if (place.input.size() != input_size || found != target_size) {
    throw Error(fmt::format(
        "data: a sample of {} input and {} target numbers does not fit places for {} and {}",
        input_size, target_size, place.input.size(), found));
  }
}

void Dataset::read_bytes(std::int64_t index, std::span<std::uint8_t> /*input*/,
                         std::span<std::int64_t> /*label*/) const {
  throw Error(fmt::format("data: the bytes of sample {} of a dataset that has numbers", index));
}

Subset::Subset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> samples)
    : whole_(std::move(whole)), samples_(std::move(samples)) {
  if (samples_.empty()) throw Error("data: a subset of no samples");
  for (const auto sample : samples_) check_index(sample, whole_->size());
}

std::int64_t Subset::chosen(std::int64_t index) const {
  check_index(index, size());
  return samples_[static_cast<std::size_t>(index)];
}

void Subset::read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const {
  whole_->read(chosen(index), epoch, place);
}

std::shared_ptr<const Dataset> Subset::part(std::span<const RowRange> rows) const {
  auto part = whole_->part(rows);
  if (!part) return nullptr;
  auto subset = std::make_shared<Subset>(*this);
  subset->whole_ = std::move(part);
  return subset;
}

void Subset::read_bytes(std::int64_t index, std::span<std::uint8_t> input,
                        std::span<std::int64_t> label) const {
  whole_->read_bytes(chosen(index), input, label);
}

RandomDataset::RandomDataset(SampleLayout layout, std::int64_t size, std::uint64_t seed)
    : layout_(std::move(layout)),
      size_(size),
      seed_(seed),
      input_size_(static_cast<std::size_t>(layout_.input_size())),
      target_size_(static_cast<std::size_t>(layout_.target_size())),
      pool_(pool_size) {
  CounterRandom random(seed, pool_stream, 0);
  for (auto& number : pool_) number = random.normal();
}

void RandomDataset::read(std::int64_t index, std::int64_t /*epoch*/,
                         const SampleSpans& place) const {
  check_read(index, place, input_size_, target_size_);
  CounterRandom random(seed_, sample_stream, static_cast<std::uint64_t>(index));
  copy_round(pool_, random.below(pool_size), place.input);
  if (layout_.classes > 0) {
    place.label[0] = random.below(static_cast<std::uint32_t>(layout_.classes));
  } else {
    copy_round(pool_, random.below(pool_size), place.target);
  }
}

// Parts of samples, of datasets that read whole ones.
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

// Writes these rows of a field of some axes from `out` on; returns the place behind them.
float* copy_rows(const float* field, std::span<const std::int64_t> shape,
                 std::span<const RowRange> rows, float* out) {
  const auto& own = rows.front();
  if (rows.size() == 1) return std::copy(field + own.begin, field + own.end, out);
  std::int64_t stride = 1;
  for (const auto length : shape.subspan(1)) stride *= length;
  for (auto row = own.begin; row < own.end; ++row)
    out = copy_rows(field + row * stride, shape.subspan(1), rows.subspan(1), out);
  return out;
}

class DatasetPart final : public Dataset {
 public:
  DatasetPart(std::shared_ptr<const Dataset> whole, std::span<const RowRange> rows)
      : whole_(std::move(whole)),
        rows_(rows.begin(), rows.end()),
        layout_(layout_of_part(whole_->layout(), rows)) {}

  [[nodiscard]] std::int64_t size() const override { return whole_->size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override {
    check_read(index, place, static_cast<std::size_t>(layout_.input_size()),
               static_cast<std::size_t>(layout_.target_size()));
    const auto& layout = whole_->layout();
    const bool has_fields = layout.classes == 0;
    std::vector<float> input(static_cast<std::size_t>(layout.input_size()));
    std::vector<float> target(has_fields ? static_cast<std::size_t>(layout.target_size()) : 0);
    whole_->read(index, epoch, {input, place.label, target});
    const auto copy_part = [&](const std::vector<float>& field, const Shape& shape, float* out) {
      std::vector<RowRange> rows{{0, shape[0]}};
      rows.insert(rows.end(), rows_.begin(), rows_.end());
      (void)copy_rows(field.data(), shape, rows, out);
    };
    copy_part(input, layout.input_shape, place.input.data());
    if (has_fields) copy_part(target, layout.target_shape, place.target.data());
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::vector<RowRange> rows_;
  SampleLayout layout_;
};

}  // namespace

std::shared_ptr<const Dataset> part_of_samples(std::shared_ptr<const Dataset> whole,
                                               std::span<const RowRange> rows) {
  (void)layout_of_part(whole->layout(), rows);
  if (auto part = whole->part(rows)) return part;
  return std::make_shared<DatasetPart>(std::move(whole), rows);
}

}  // namespace kolo
