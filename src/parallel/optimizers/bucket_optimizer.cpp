#include "kolo/parallel/bucket_optimizer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/gradient_norm.h"
#include "parallel/optimizers/tensor_steps.h"
#include "parallel/tensors/tensors.h"

namespace kolo::parallel {

// A stretch of a bucket that an optimizer takes in one call, in elements.
struct BucketRun {
  std::int64_t offset = 0;  // from the bucket's start
  std::int64_t count = 0;
  bool is_vector = false;  // see FlatSlice
  std::int64_t step = 1;   // of these parameters, from 1
};

}  // namespace kolo::parallel

namespace kolo {

namespace {

void require_trainable(const BucketPlan& plan, std::string_view name) {
  for (const auto& parameter : plan.parameters) {
    if (parameter.type == DataType::float32 || parameter.type == DataType::float64) continue;
    throw Error(
        fmt::format("parallel: {} can't be trained by {}: parameters must be float32 or float64",
                    parameter.describe(), name));
  }
}

}  // namespace

BucketOptimizer::BucketOptimizer(std::shared_ptr<ParameterArena> arena,
                                 std::shared_ptr<const FlatOptimizer> algorithm, std::string name)
    : arena_(parallel::given(arena, name.c_str(), "arena")),
      version_(arena_->version()),
      name_(std::move(name)),
      algorithm_(std::move(algorithm)),
      skipped_(arena_->parameters().size(), 0),
      steps_(std::make_unique<parallel::TensorSteps>()) {
  require_trainable(arena_->plan(), name_);
}

BucketOptimizer::~BucketOptimizer() = default;

void BucketOptimizer::require_same_plan() const {
  if (arena_->version() == version_) return;
  throw Error(
      fmt::format("parallel: the arena's buckets were rebuilt after {} was made from it; make the "
                  "reducer without rebuild_buckets, or the optimizer after the first step",
                  name_));
}

void BucketOptimizer::update(std::size_t bucket, double learning_rate, std::int64_t step,
                             const GradientUse& use) {
  require_same_plan();
  if (!trained_.empty()) {
    throw Error(fmt::format(
        "parallel: a step of {} while the network has the parameters to be used with; call "
        "to_training() first",
        name_));
  }
  enter_step();
  if (std::exchange(noted_step_, step) != step) {
    weight_ = rates_.note(learning_rate).weight;
    left_out_ = 0;
  }
  for (const BucketEntry& entry : arena_->plan().buckets[bucket].entries) {
    if (!arena_->takes_part(entry.parameter)) ++skipped_[entry.parameter];
  }
  for (const Own& own : own_parts(bucket)) {
    for (const auto& run : runs(bucket, step, own))
      update_run(run, bucket, own, {learning_rate, weight_}, use);
  }
  end_bucket(bucket);
}

// Cuts a part of a bucket where parameters are left out of the step or have made fewer of them,
// between vectors and other parameters where that matters, or into whole parameters; most often not
// at all. The gaps between parameters belong to the run before them, except that whole parameters
// come without; then the part must be the whole bucket.
std::vector<parallel::BucketRun> BucketOptimizer::runs(std::size_t bucket, std::int64_t step,
                                                       const Own& own) const {
  const auto& entries = arena_->plan().buckets[bucket].entries;
  std::vector<parallel::BucketRun> runs;
  const bool is_whole = algorithm().is_layerwise();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const BucketEntry& entry = entries[i];
    const std::int64_t behind = i + 1 < entries.size() ? entries[i + 1].offset : own.end;
    const std::int64_t from = std::max(own.begin, entry.offset);
    const std::int64_t to = is_whole ? entry.offset + entry.count : std::min(own.end, behind);
    if (from >= to || !arena_->takes_part(entry.parameter)) continue;
    const bool is_vector = (is_whole || algorithm().spares_vectors()) &&
                           arena_->plan().parameters[entry.parameter].shape.size() <= 1;
    const parallel::BucketRun run{from, to - from, is_vector, step - skipped_[entry.parameter]};
    const bool goes_on = !is_whole && !runs.empty() &&
                         runs.back().offset + runs.back().count == from &&
                         runs.back().is_vector == run.is_vector && runs.back().step == run.step;
    if (goes_on)
      runs.back().count += run.count;
    else
      runs.push_back(run);
  }
  return runs;
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

void BucketOptimizer::update_run(const parallel::BucketRun& run, std::size_t bucket, const Own& own,
                                 StepRate rate, const GradientUse& use) {
  const torch::NoGradGuard no_gradient;
  const auto part = [&](const torch::Tensor& flat) {
    return flat.narrow(0, run.offset, run.count);
  };
  parallel::TensorSlice slice{.parameters = part(arena_->flat_parameters(bucket)),
                              .gradients = part(arena_->flat_gradients(bucket)),
                              .is_vector = run.is_vector};
  for (const auto& flat : gradients_to_average(bucket)) slice.to_average.push_back(part(flat));
  for (const auto& buckets : state_)
    slice.state.push_back(buckets[bucket].narrow(0, own.state + run.offset - own.begin, run.count));
  steps_->update(algorithm(), slice, rate, run.step, use);
}

void BucketOptimizer::prepare(double learning_rate, std::int64_t step) {
  const auto steps = step - std::exchange(noted_step_, step);
  if (steps == 0) return;
  weight_ = rates_.note(learning_rate).weight;
  steps_->advance({learning_rate, weight_}, steps - std::exchange(left_out_, 0));
}

void BucketOptimizer::leave_out(std::int64_t step) {
  // A device was given the update, without knowing that it would do nothing.
  const bool was_given = noted_step_ >= step;
  for (std::size_t parameter = 0; parameter < skipped_.size(); ++parameter) {
    if (!was_given || arena_->takes_part(parameter)) ++skipped_[parameter];
  }
  if (!was_given) return;
  ++left_out_;
  rates_.forget();
}

void BucketOptimizer::finish() {
  if (is_in_step_) end_step();
  is_in_step_ = false;
}

// Calls change(bucket, number, own, parameters) for this rank's parts of all buckets, as a step.
template <typename Change>
void BucketOptimizer::change_parameters(const Change& change) {
  const torch::NoGradGuard no_gradient;
  require_same_plan();
  enter_step();
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    std::size_t number = 0;
    for (const Own& own : own_parts(bucket))
      change(bucket, number++, own, arena_->flat_parameters(bucket).slice(0, own.begin, own.end));
    end_bucket(bucket);
  }
  finish();
}

// Multiplies and subtracts in two operations: LibTorch fuses them only in full vectors, and the
// bits would depend on the cut.
void BucketOptimizer::to_evaluation() {
  const auto use = algorithm().for_use();
  if (!use || !trained_.empty()) return;
  change_parameters(
      [&](std::size_t bucket, std::size_t /*number*/, const Own& own, torch::Tensor part) {
        trained_.resize(arena_->buckets());
        trained_[bucket].push_back(part.clone());
        part.sub_(state_[use->index][bucket].narrow(0, own.state, part.numel()).mul(use->factor));
      });
}

void BucketOptimizer::to_training() {
  if (trained_.empty()) return;
  change_parameters([&](std::size_t bucket, std::size_t number, const Own& /*own*/,
                        torch::Tensor part) { part.copy_(trained_[bucket][number]); });
  trained_.clear();
}

std::vector<NamedTensor> BucketOptimizer::named(
    const std::vector<std::vector<torch::Tensor>>& whole) const {
  std::vector<NamedTensor> result;
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

void BucketOptimizer::set_skipped_steps(std::span<const std::int64_t> counts) {
  if (counts.size() != skipped_.size()) {
    throw Error(fmt::format("parallel: skipped steps of {} parameters for {}; the arena has {}",
                            counts.size(), name_, skipped_.size()));
  }
  std::ranges::copy(counts, skipped_.begin());
}

std::int64_t BucketOptimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& buckets : state_) {
    for (const torch::Tensor& bucket : buckets) bytes += static_cast<std::int64_t>(bucket.nbytes());
  }
  return bytes;
}

}  // namespace kolo
