#include "parallel/gradients/reducer_state.h"

#include <numeric>
#include <span>

#include <fmt/format.h>
#include <torch/utils.h>

#include "kolo/base/checked.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

using SparseAverage = GradientUnits::SparseAverage;

// Gathers the ranks' rows, [rows, ...], one after another.
torch::Tensor gather_rows(const Communicator& communicator, const torch::Tensor& mine,
                          std::span<const std::int64_t> rows) {
  auto shape = mine.sizes().vec();
  shape[0] = 1;
  const auto width = checked_product<std::int64_t>(shape);
  std::vector<std::int64_t> counts;
  for (const std::int64_t each : rows) counts.push_back(checked_multiply(each, width));
  shape[0] = std::reduce(rows.begin(), rows.end());
  const torch::Tensor all = torch::empty(shape, mine.options());
  communicator.all_gather_uneven(buffer_of(mine), buffer_of(all), counts);
  return all;
}

// The average over the ranks of a gradient of `shape`, sparse and coalesced: their rows one after
// another, where each lists a row once. An undefined gradient counts as zero, a dense one is made
// sparse by rows. Collective: the number of rows, then indices and values.
SparseAverage average_sparse(const Communicator& communicator, torch::Tensor gradient,
                             const torch::Tensor& parameter) {
  const torch::NoGradGuard no_gradient;
  if (!gradient.defined()) gradient = torch::zeros_like(parameter).to_sparse(1);
  if (!gradient.is_sparse()) gradient = gradient.to_sparse(1);
  gradient = gradient.coalesce();
  const torch::Tensor indices = gradient.indices().t().contiguous();
  const torch::Tensor values = gradient.values().contiguous();
  SparseAverage result;
  result.bytes = static_cast<std::int64_t>(indices.nbytes() + values.nbytes());
  const std::int64_t mine = values.size(0);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(rows));
  const torch::Tensor all_indices = gather_rows(communicator, indices, rows);
  // Divided first, so that no sum overflows; 16-bit types are added up in float32.
  const auto type = values.scalar_type();
  torch::Tensor all_values = gather_rows(communicator, values, rows);
  if (values.element_size() < 4) all_values = all_values.to(torch::kFloat);
  all_values.div_(communicator.active_ranks());
  result.gradient =
      torch::sparse_coo_tensor(all_indices.t(), all_values, parameter.sizes()).coalesce().to(type);
  return result;
}

}  // namespace

GradientUnits::GradientUnits(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
                             const ReducerOptions& options)
    : communicator_(std::move(communicator)), arena_(std::move(arena)), options_(options) {
  for (const auto& each : arena_->excluded()) sparse_.push_back({each});
  unit_of_.resize(arena_->parameters().size() + sparse_.size());
  lay_out();
  start_over();
}

void GradientUnits::lay_out() {
  buckets_.clear();
  for (std::size_t index = 0; index < arena_->buckets(); ++index) {
    auto bucket = std::make_shared<GradientBucket>();
    bucket->index = index;
    bucket->flat = arena_->flat_gradients(index);
    for (const auto& entry : arena_->plan().buckets[index].entries) {
      unit_of_[entry.parameter] = index;
      bucket->gradients.push_back(arena_->gradient_view(entry.parameter));
    }
    buckets_.push_back(std::move(bucket));
  }
  for (std::size_t index = 0; index < sparse_.size(); ++index)
    unit_of_[arena_->parameters().size() + index] = arena_->buckets() + index;
}

const torch::Tensor& GradientUnits::tensor(std::size_t parameter) const {
  const auto& dense = arena_->parameters();
  return is_sparse(parameter) ? sparse_[parameter - dense.size()].parameter.tensor
                              : dense[parameter];
}

std::string GradientUnits::name(std::size_t parameter) const {
  const auto& dense = arena_->plan().parameters;
  return is_sparse(parameter) ? sparse_[parameter - dense.size()].parameter.name
                              : dense[parameter].names();
}

std::vector<std::size_t> GradientUnits::parameters_of(std::size_t unit) const {
  if (unit >= arena_->buckets()) return {arena_->parameters().size() + unit - arena_->buckets()};
  std::vector<std::size_t> parameters;
  for (const auto& entry : arena_->plan().buckets[unit].entries)
    parameters.push_back(entry.parameter);
  return parameters;
}

bool GradientUnits::are_one_bucket() const {
  return size() == 1 && sparse_.empty();
}

bool GradientUnits::are_done_at_once() const {
  return are_one_bucket() && arena_->device().is_cpu();
}

std::int64_t GradientUnits::start(std::size_t unit) {
  if (unit >= arena_->buckets()) {
    start_sparse(unit);
    return 0;
  }
  const torch::Tensor& gradients = arena_->flat_gradients(unit);
  const auto bytes = static_cast<std::int64_t>(gradients.nbytes());
  if (!options_.communicate || !options_.averages) return bytes;
  // The task doesn't own the arena, whose communicator can't be destroyed on its own thread.
  CallOptions call{.name = fmt::format("bucket {}", unit), .owner = buckets_[unit]};
  const auto stream = parallel::TaskStream::of(gradients);
  if (options_.hook && are_done_at_once()) {
    const torch::NoGradGuard no_gradient;
    options_.hook->average(communicator_, *buckets_[unit]);
  } else if (options_.hook) {
    works_[unit] = communicator_.enqueue(
        [hook = options_.hook, bucket = buckets_[unit], stream](const Communicator& communicator) {
          const torch::NoGradGuard no_gradient;
          const auto in_stream = stream.enter();
          hook->average(communicator, *bucket);
        },
        std::move(call));
  } else if (communicator_.size() == 1) {
    return bytes;
  } else if (are_done_at_once()) {
    communicator_.all_reduce(buffer_of(gradients), ReduceOp::average, std::move(call));
  } else {
    works_[unit] =
        communicator_.all_reduce_async(buffer_of(gradients), ReduceOp::average, std::move(call));
  }
  return bytes;
}

void GradientUnits::start_sparse(std::size_t unit) {
  const auto index = unit - arena_->buckets();
  const torch::Tensor& parameter = sparse_[index].parameter.tensor;
  auto& average = sparse_[index].average;
  average = std::make_shared<SparseAverage>();
  torch::Tensor gradient = parameter.grad();
  if (!options_.communicate || communicator_.size() == 1) {
    average->gradient = gradient;
    return;
  }
  const auto stream = parallel::TaskStream::of(parameter);
  works_[unit] = communicator_.enqueue(
      [average, gradient, parameter = parameter.detach(),
       stream](const Communicator& communicator) {
        const auto in_stream = stream.enter();
        *average = average_sparse(communicator, gradient, parameter);
      },
      {.name = fmt::format("sparse {}", index)});
}

std::int64_t GradientUnits::release_sparse_averages() {
  std::int64_t bytes = 0;
  for (SparseParameter& sparse : sparse_) bytes += std::exchange(sparse.average, nullptr)->bytes;
  return bytes;
}

}  // namespace kolo
