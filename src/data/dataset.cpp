#include "kolo/data/dataset.h"

#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

void check_index(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) {
    throw Error(fmt::format("data: sample {} of a dataset of {} samples", index, size));
  }
}

}  // namespace

std::int64_t SampleLayout::input_size() const {
  return checked_product(std::span<const std::int64_t>(input_shape));
}

std::int64_t SampleLayout::target_size() const {
  return classes > 0 ? 1 : checked_product(std::span<const std::int64_t>(target_shape));
}

void Dataset::check_read(std::int64_t index, const SamplePlace& place, std::size_t input_size,
                         std::size_t target_size) const {
  check_index(index, size());
  const auto found = layout().classes > 0 ? place.label.size() : place.target.size();
  if (place.input.size() != input_size || found != target_size) {
    throw Error(fmt::format(
        "data: a sample of {} input and {} target numbers does not fit places for {} and {}",
        input_size, target_size, place.input.size(), found));
  }
}

Subset::Subset(std::shared_ptr<const Dataset> whole, std::int64_t count, Choice choice)
    : whole_(std::move(whole)), count_(count), choice_(choice) {
  if (count < 1 || count > whole_->size()) {
    throw InputError(
        fmt::format("data: cannot take {} samples of a dataset of {}: expected 1 to {}", count,
                    whole_->size(), whole_->size()));
  }
}

void Subset::read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const {
  check_index(index, count_);
  const auto chosen =
      choice_ == Choice::first ? index : checked_multiply(index, whole_->size()) / count_;
  whole_->read(chosen, epoch, place);
}

}  // namespace kolo
