#include "parallel/gradients/reducer_state.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/parallel/accumulation_hook.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/gradients/gradient_memory.h"

// What happens before and during backward; the rest of a step is in reducer_finish.cpp.
namespace kolo {

namespace {

void check(const ReducerOptions& options) {
  if (!(options.predivide_factor > 0) || !std::isfinite(options.predivide_factor)) {
    throw Error(fmt::format("parallel: predivide_factor is {}; it must be greater than 0",
                            options.predivide_factor));
  }
  if (options.hook && options.predivide_factor != 1) {
    throw Error(
        fmt::format("parallel: predivide_factor is {} and there is a gradient hook; a hook scales "
                    "by itself (float16_compression() takes a factor)",
                    options.predivide_factor));
  }
  if (options.static_graph && !options.unused_parameters) {
    throw Error(
        "parallel: static_graph without unused_parameters; there is nothing to note where all "
        "parameters must be used");
  }
}

}  // namespace

GradientReducer::State::State(Communicator communicator, std::shared_ptr<ParameterArena> arena,
                              ReducerOptions options)
    : communicator_(std::move(communicator)),
      arena_(std::move(arena)),
      options_(std::move(options)),
      is_order_wanted_(options_.rebuild_buckets.value_or(false) && communicates()) {
  check(options_);
  for (const auto& each : arena_->excluded()) sparse_.push_back({each.name, each.tensor});
  units_.resize(arena_->parameters().size() + sparse_.size());
  agreement_ = std::make_shared<StepAgreement>(parameters());
  if (options_.hook) hook_bytes_before_ = options_.hook->bytes_sent();
  lay_out();
  start_over();
}

void GradientReducer::State::attach() {
  for (std::size_t index = 0; index < parameters(); ++index) {
    accumulators_.push_back(call_after_accumulation(
        tensor(index),
        [weak = weak_from_this(), index] {
          if (const auto state = weak.lock()) state->gradient_is_ready(index);
        },
        [weak = weak_from_this(), index]() -> std::shared_ptr<void> {
          const auto state = weak.lock();
          return state ? state->claim(index) : nullptr;
        }));
  }
}

const torch::Tensor& GradientReducer::State::tensor(std::size_t parameter) const {
  const auto& dense = arena_->parameters();
  return is_sparse(parameter) ? sparse_[parameter - dense.size()].parameter : dense[parameter];
}

const std::string& GradientReducer::State::name(std::size_t parameter) const {
  const auto& dense = arena_->plan().parameters;
  return is_sparse(parameter) ? sparse_[parameter - dense.size()].name : dense[parameter].name;
}

void GradientReducer::State::lay_out() {
  buckets_.clear();
  for (std::size_t index = 0; index < arena_->buckets(); ++index) {
    auto bucket = std::make_shared<GradientBucket>();
    bucket->index = index;
    bucket->flat = arena_->flat_gradients(index);
    for (const auto& entry : arena_->plan().buckets[index].entries) {
      units_[entry.parameter] = index;
      bucket->gradients.push_back(arena_->gradient_view(entry.parameter));
      bucket->names.push_back(name(entry.parameter));
    }
    buckets_.push_back(std::move(bucket));
  }
  for (std::size_t index = 0; index < sparse_.size(); ++index)
    units_[arena_->parameters().size() + index] = arena_->buckets() + index;
}

void GradientReducer::State::start_over() {
  has_begun_ = is_sealed_ = has_agreement_ = false;
  arrivals_.assign(parameters(), Arrival::none);
  claimed_.assign(parameters(), false);
  missing_.assign(units(), 1);
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    missing_[bucket] = arena_->plan().buckets[bucket].entries.size();
  started_ = 0;
  works_.assign(units(), Work());
  is_handed_out_.assign(arena_->buckets(), false);
  agreement_work_ = Work();
  problem_.clear();
  stash_.clear();
  order_.clear();
}

void GradientReducer::State::begin_step() {
  has_begun_ = true;
  agreement_->begin(sends_usage());
  std::uint64_t fingerprint = 0;
  std::vector<std::string> frozen;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (!tensor(parameter).requires_grad()) {
      // Fibonacci hashing keeps apart which ones they are.
      fingerprint = (fingerprint ^ (parameter + 1)) * 0x9e3779b97f4a7c15;
      frozen.push_back(name(parameter));
      set_absent(parameter);
    } else if (is_recorded_ && !used_here_[parameter]) {
      set_absent(parameter);
    }
  }
  std::string description;
  if (!frozen.empty()) {
    description =
        fmt::format("rank {} has frozen {}", communicator_.rank(), fmt::join(frozen, ", "));
  }
  agreement_->set_setup(fingerprint, std::move(description));
  for (const auto& each : arena_->frozen()) {
    if (!each.tensor.requires_grad()) continue;
    add_problem(fmt::format(
        "parameter {} requires a gradient now, but did not when the reducer was made, and is not "
        "averaged; make the reducer while it does (it may be frozen afterwards)",
        each.name));
  }
}

void GradientReducer::State::gradient_is_ready(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (!has_begun_) begin_step();
  Arrival& arrival = arrivals_[parameter];
  if (arrival == Arrival::ready) {
    throw Error(
        fmt::format("parallel: parameter {} got a second gradient in one step; call finish() after "
                    "each backward(), or have no_sync() around all but the last",
                    name(parameter)));
  }
  if (arrival == Arrival::absent) {
    add_problem(fmt::format("parameter {} got a gradient, but {}", name(parameter),
                            is_recorded_ ? "none in the first step; without static_graph the "
                                           "parameters used may change"
                                         : "was frozen when the step began"));
    return;
  }
  if (quiet_ > 0) {
    arrival = Arrival::accumulated;
    return;
  }
  set_ready(parameter);
  if (is_order_wanted_ && !is_sparse(parameter)) order_.push_back(parameter);
  if (options_.overlap) start_complete_units();
}

std::shared_ptr<void> GradientReducer::State::claim(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  // Elsewhere there is something to add to, or something else to be given back.
  const bool is_whole = quiet_ == 0 && arrivals_[parameter] == Arrival::none &&
                        !claimed_[parameter] && !tensor(parameter).grad().defined();
  if (!is_whole || is_sparse(parameter) || !options_.gradients_as_views) return nullptr;
  const torch::Tensor& view = arena_->gradient_view(parameter);
  if (view.strides() != tensor(parameter).strides()) return nullptr;
  claimed_[parameter] = true;
  return {std::make_shared<torch::Tensor>(view), view.data_ptr()};
}

void GradientReducer::State::set_ready(std::size_t parameter) {
  contribute(parameter);
  if (!is_sparse(parameter)) arena_->set_idle(parameter, false);
  arrivals_[parameter] = Arrival::ready;
  --missing_[units_[parameter]];
}

// Without a gradient of this step, a parameter contributes what its grad() holds: a gradient left
// from before is the same on all ranks, and adding to it anywhere must give the same everywhere.
void GradientReducer::State::set_absent(std::size_t parameter) {
  if (!is_sparse(parameter)) {
    const torch::Tensor gradient = tensor(parameter).grad();
    const torch::Tensor& view = arena_->gradient_view(parameter);
    const torch::NoGradGuard no_gradient;
    if (!gradient.defined())
      view.zero_();
    else if (parallel::is_in_place(gradient, view))
      stash_[parameter] = view.clone();
    else
      view.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  }
  arrivals_[parameter] = Arrival::absent;
  --missing_[units_[parameter]];
}

void GradientReducer::State::contribute(std::size_t parameter) {
  if (is_sparse(parameter)) return;
  torch::Tensor& gradient = tensor(parameter).mutable_grad();
  const torch::Tensor& view = arena_->gradient_view(parameter);
  const torch::NoGradGuard no_gradient;
  if (!parallel::is_in_place(gradient, view))
    view.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  if (options_.gradients_as_views) gradient = view;
}

void GradientReducer::State::start_complete_units() {
  while (started_ < units() && missing_[started_] == 0) start(started_++);
  // In a static graph a gradient too many may come until backward is over.
  if (started_ == units() && (is_sealed_ || !is_recorded_)) start_agreement();
}

void GradientReducer::State::start(std::size_t unit) {
  if (unit >= arena_->buckets()) return start_sparse(unit);
  const torch::Tensor& gradients = arena_->flat_gradients(unit);
  statistics_.bytes += static_cast<std::int64_t>(gradients.nbytes());
  if (!options_.communicate) return;
  CallOptions call{.name = fmt::format("bucket {}", unit), .owner = arena_};
  if (options_.hook) {
    works_[unit] = communicator_.enqueue(
        [hook = options_.hook, bucket = buckets_[unit]](const Communicator& communicator) {
          const torch::NoGradGuard no_gradient;
          hook->average(communicator, *bucket);
        },
        std::move(call));
  } else if (communicator_.size() == 1) {
    return;
  } else if (options_.predivide_factor != 1) {
    works_[unit] = communicator_.enqueue(
        [bucket = buckets_[unit],
         factor = options_.predivide_factor](const Communicator& communicator) {
          const torch::NoGradGuard no_gradient;
          bucket->flat.div_(factor);
          communicator.all_reduce(buffer_of(bucket->flat), ReduceOp::average);
          bucket->flat.mul_(factor);
        },
        std::move(call));
  } else {
    works_[unit] =
        communicator_.all_reduce_async(buffer_of(gradients), ReduceOp::average, std::move(call));
  }
}

void GradientReducer::State::start_sparse(std::size_t unit) {
  const auto index = unit - arena_->buckets();
  SparseGradient& sparse = sparse_[index];
  sparse.result = std::make_shared<SparseGradient::Result>();
  torch::Tensor gradient = sparse.parameter.grad();
  if (!communicates()) {
    sparse.result->gradient = gradient;
    return;
  }
  works_[unit] = communicator_.enqueue(
      [result = sparse.result, gradient,
       parameter = sparse.parameter.detach()](const Communicator& communicator) {
        *result = average_sparse(communicator, gradient, parameter);
      },
      {.name = fmt::format("sparse {}", index)});
}

void GradientReducer::State::start_agreement() {
  if (has_agreement_) return;
  has_agreement_ = true;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter)
    agreement_->set_used(parameter, arrivals_[parameter] == Arrival::ready);
  agreement_->set_problem(problem_);
  if (!communicates() || (!options_.agree && !options_.unused_parameters)) {
    agreement_->run_alone();
    return;
  }
  agreement_work_ = communicator_.enqueue(
      [agreement = agreement_](const Communicator& communicator) { agreement->run(communicator); },
      {.name = "step agreement"});
}

}  // namespace kolo
