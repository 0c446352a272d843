#include "kolo/parallel/bucket_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_norm.h"
#include "parallel/optimizers/bucket_runs.h"
#include "parallel/optimizers/tensor_steps.h"
#include "parallel/tensors/tensor_passes.h"

namespace kolo {

namespace {

template <typename T>
std::span<T> elements_of(const torch::Tensor& flat, std::int64_t offset, std::int64_t count) {
  return {flat.data_ptr<T>() + offset, static_cast<std::size_t>(count)};
}

}  // namespace

BucketOptimizer::BucketOptimizer(std::shared_ptr<ParameterArena> arena,
                                 std::vector<std::shared_ptr<const FlatOptimizer>> algorithms,
                                 std::vector<std::size_t> group_of, std::string name)
    : arena_(std::move(arena)),
      version_(arena_->version()),
      name_(std::move(name)),
      groups_(
          std::make_unique<parallel::ParameterGroups>(std::move(algorithms), std::move(group_of))),
      on_device_(std::make_unique<parallel::TensorSteps>()) {
  require_trainable();
}

BucketOptimizer::~BucketOptimizer() = default;

void BucketOptimizer::require_trainable() const {
  for (const auto& parameter : arena_->plan().parameters) {
    if (parameter.type == DataType::float32 || parameter.type == DataType::float64) continue;
    throw Error(
        fmt::format("parallel: {} can't be trained by {}: parameters must be float32 or float64",
                    parameter.describe(), name_));
  }
}

void BucketOptimizer::require_same_plan() const {
  if (arena_->version() == version_) return;
  throw Error(
      fmt::format("parallel: the arena's buckets were rebuilt after {} was made from it; make the "
                  "reducer without rebuild_buckets, or the optimizer after the first step",
                  name_));
}

const FlatOptimizer& BucketOptimizer::algorithm() const {
  return *groups_->algorithms().front();
}

void BucketOptimizer::update(std::size_t bucket, double learning_rate, std::int64_t step,
                             const GradientUse& use) {
  const std::vector<double> rates(groups_->algorithms().size(), learning_rate);
  update(bucket, rates, step, use);
}

void BucketOptimizer::update(std::size_t bucket, std::span<const double> learning_rates,
                             std::int64_t step, const GradientUse& use) {
  require_same_plan();
  if (learning_rates.size() != groups_->algorithms().size()) {
    throw Error(
        fmt::format("parallel: {} learning rates for {}, which was made with {} groups of "
                    "parameters; groups can't be added later",
                    learning_rates.size(), name_, groups_->algorithms().size()));
  }
  if (!trained_.empty()) {
    throw Error(fmt::format(
        "parallel: a step of {} while the network has the parameters to be used with; call "
        "to_training() first",
        name_));
  }
  enter_step();
  if (std::exchange(noted_step_, step) != step) share_ = rates_.note(learning_rates.front()).share;
  groups_->begin(*arena_, bucket);
  for (const Own& own : own_parts(bucket)) {
    for (const auto& run : groups_->runs(*arena_, bucket, step, own.begin, own.end)) {
      // Piece by piece, so that what goes to the other ranks is in the cache still.
      for (std::int64_t done = 0; done < run.count;) {
        auto piece = run;
        piece.offset += done;
        piece.count = std::min(published_elements_, run.count - done);
        update_run(piece, bucket, own.begin - own.state, {learning_rates[run.group], share_}, use);
        publish(bucket, piece.offset, piece.offset + piece.count);
        done += piece.count;
      }
    }
  }
  end_bucket(bucket);
}

std::vector<torch::Tensor> BucketOptimizer::averages(std::size_t bucket) const {
  return {arena_->flat_gradients(bucket)};
}

torch::Tensor BucketOptimizer::squared_norm() const {
  const auto squares =
      torch::zeros({1}, torch::TensorOptions(torch::kDouble).device(arena_->device()));
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    parallel::add_to_norm(arena_->flat_gradients(bucket), squares);
  return squares;
}

void BucketOptimizer::scale_gradients(double factor) const {
  if (factor == 1) return;
  const torch::NoGradGuard no_gradient;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    for (torch::Tensor& part : averages(bucket)) part.mul_(factor);
  }
}

double BucketOptimizer::clip_gradients(double maximum_norm) const {
  const double norm = std::sqrt(squared_norm().item<double>());
  scale_gradients(clip_factor(norm, maximum_norm));
  return norm;
}

void BucketOptimizer::enter_step() {
  if (!is_in_step_) begin_step();
  is_in_step_ = true;
}

void BucketOptimizer::update_run(const parallel::BucketRun& run, std::size_t bucket,
                                 std::int64_t before_state, StepRate rate, const GradientUse& use) {
  const auto& algorithm = *groups_->algorithms()[run.group];
  if (arena_->device().is_cpu()) {
    if (arena_->plan().buckets[bucket].type == DataType::float64)
      algorithm.update(slice_of<double>(run, bucket, before_state), rate, run.step);
    else
      algorithm.update(slice_of<float>(run, bucket, before_state), rate, run.step);
    return;
  }
  const torch::NoGradGuard no_gradient;
  parallel::TensorSlice slice{arena_->flat_parameters(bucket).narrow(0, run.offset, run.count),
                              arena_->flat_gradients(bucket).narrow(0, run.offset, run.count),
                              {},
                              run.is_vector};
  for (const auto& buckets : state_)
    slice.state.push_back(buckets[bucket].narrow(0, run.offset - before_state, run.count));
  on_device_->update(algorithm, slice, rate, run.step, use);
}

template <typename T>
FlatSlice<T> BucketOptimizer::slice_of(const parallel::BucketRun& run, std::size_t bucket,
                                       std::int64_t before_state) const {
  FlatSlice<T> slice;
  slice.parameters = elements_of<T>(arena_->flat_parameters(bucket), run.offset, run.count);
  slice.gradients = elements_of<T>(arena_->flat_gradients(bucket), run.offset, run.count);
  for (std::size_t slot = 0; slot < state_.size(); ++slot)
    slice.state.at(slot) =
        elements_of<T>(state_[slot][bucket], run.offset - before_state, run.count);
  slice.is_vector = run.is_vector;
  return slice;
}

void BucketOptimizer::prepare(double learning_rate, std::int64_t step) {
  const auto steps = step - std::exchange(noted_step_, step);
  if (steps == 0) return;
  share_ = rates_.note(learning_rate).share;
  on_device_->advance({learning_rate, share_}, steps);
}

void BucketOptimizer::finish() {
  if (is_in_step_) end_step();
  is_in_step_ = false;
}

// Calls change(bucket, number and place of a part of this rank's, its parameters), and shows the
// others what is changed.
template <typename Change>
void BucketOptimizer::change_parameters(const Change& change) {
  const torch::NoGradGuard no_gradient;
  require_same_plan();
  enter_step();
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    std::size_t number = 0;
    for (const Own& own : own_parts(bucket)) {
      change(bucket, number++, own, arena_->flat_parameters(bucket).slice(0, own.begin, own.end));
      publish(bucket, own.begin, own.end);
    }
    end_bucket(bucket);
  }
  finish();
}

// Product and difference one after the other: LibTorch fuses them in whole vectors only, so that
// the bits would depend on how many ranks share a bucket.
void BucketOptimizer::to_evaluation() {
  const auto use = algorithm().for_use();
  if (!use || !trained_.empty()) return;
  change_parameters(
      [&](std::size_t bucket, std::size_t /*number*/, const Own& own, torch::Tensor part) {
        trained_.resize(arena_->buckets());
        trained_[bucket].push_back(part.clone());
        part.sub_(state_[use->place][bucket].narrow(0, own.state, part.numel()).mul(use->factor));
      });
}

void BucketOptimizer::to_training() {
  if (trained_.empty()) return;
  change_parameters([&](std::size_t bucket, std::size_t number, const Own& /*own*/,
                        torch::Tensor part) { part.copy_(trained_[bucket][number]); });
  trained_.clear();
}

std::vector<BucketOptimizer::NamedState> BucketOptimizer::named(
    const std::vector<std::vector<torch::Tensor>>& whole) const {
  std::vector<NamedState> result;
  const auto names = algorithm().state_names();
  for (std::size_t parameter = 0; parameter < arena_->parameters().size(); ++parameter) {
    for (std::size_t slot = 0; slot < whole.size(); ++slot) {
      result.push_back(
          {fmt::format("{}.{}", arena_->plan().parameters[parameter].name, names[slot]),
           arena_->view_of(parameter, whole[slot])});
    }
  }
  return result;
}

std::span<std::int64_t> BucketOptimizer::skipped() const {
  return groups_->skipped();
}

std::vector<std::int64_t> BucketOptimizer::skipped_steps() const {
  return {skipped().begin(), skipped().end()};
}

void BucketOptimizer::set_skipped_steps(std::span<const std::int64_t> counts) {
  if (counts.size() != skipped().size()) {
    throw Error(fmt::format("parallel: skipped steps of {} parameters for {}; the arena has {}",
                            counts.size(), name_, skipped().size()));
  }
  std::ranges::copy(counts, skipped().begin());
}

std::int64_t BucketOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& buckets : state_) {
    for (const torch::Tensor& bucket : buckets) bytes += static_cast<std::int64_t>(bucket.nbytes());
  }
  return bytes;
}

}  // namespace kolo
