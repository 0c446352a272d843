#include "parallel/gradients/reducer_state.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/parallel/accumulation_hook.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/gradients/sparse_gradient.h"
#include "parallel/gradients/step_agreement.h"

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

GradientReducer::State::State(const Communicator& communicator,
                              std::shared_ptr<ParameterArena> arena, ReducerOptions options)
    : communicator_(arena->gradient_communicator(communicator)),
      arena_(std::move(arena)),
      options_(std::move(options)),
      starts_early_(options_.overlap),
      is_order_wanted_(options_.rebuild_buckets.value_or(false) && communicates()) {
  check(options_);
  // Without an order of their own, gradients have that of the program's calls: which buckets begin
  // in backward may differ between ranks, what comes after it does not.
  if (communicates() && !communicator_.capabilities().concurrent) starts_early_ = false;
  for (const auto& each : arena_->excluded()) sparse_.push_back({each.name, each.tensor});
  units_.resize(arena_->parameters().size() + sparse_.size());
  agreement_ = std::make_shared<StepAgreement>(parameters());
  if (options_.hook) hook_bytes_before_ = options_.hook->bytes_sent();
  lay_out();
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter)
    placeholders_.emplace_back(tensor(parameter));
  is_open_.assign(parameters(), false);
  start_over();
}

GradientReducer::State::~State() {
  take_from_aside();
  for (std::size_t parameter = 0; parameter < tensor_hooks_.size(); ++parameter)
    tensor(parameter).remove_hook(tensor_hooks_[parameter]);
}

void GradientReducer::State::attach() {
  accumulators_.resize(parameters());
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    const bool is_trained = tensor(parameter).requires_grad();
    tensor(parameter).set_requires_grad(true);  // it may be frozen, since the arena was made
    attach(parameter);
    tensor_hooks_.push_back(
        tensor(parameter).register_hook([weak = weak_from_this(), parameter](const torch::Tensor&) {
          if (const auto state = weak.lock()) state->gradient_comes(parameter);
        }));
    tensor(parameter).set_requires_grad(is_trained);
  }
}

void GradientReducer::State::attach(std::size_t parameter) {
  accumulators_[parameter] = call_after_accumulation(
      tensor(parameter),
      [weak = weak_from_this(), parameter] {
        if (const auto state = weak.lock()) state->gradient_is_ready(parameter);
      },
      [weak = weak_from_this(), parameter]() -> std::shared_ptr<void> {
        const auto state = weak.lock();
        return state ? state->take_destination(parameter) : nullptr;
      });
}

// Parameters get other accumulators when they are loaded (torch::load()) or change their type and
// back. Hooks on the tensors stay, so it is known which gradients have come past ours.
void GradientReducer::State::attach_anew() {
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (!tensor(parameter).requires_grad() || torch::autograd::impl::try_get_grad_accumulator(
                                                  tensor(parameter)) == accumulators_[parameter])
      continue;
    attach(parameter);
    if (is_coming_[parameter] && arrivals_[parameter] == Arrival::none)
      arrivals_[parameter] = Arrival::accumulated;
  }
}

const torch::Tensor& GradientReducer::State::tensor(std::size_t parameter) const {
  const auto& dense = arena_->parameters();
  return is_sparse(parameter) ? sparse_[parameter - dense.size()].parameter : dense[parameter];
}

std::string GradientReducer::State::name(std::size_t parameter) const {
  const auto& dense = arena_->plan().parameters;
  return is_sparse(parameter) ? sparse_[parameter - dense.size()].name : dense[parameter].names();
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
      bucket->names.push_back(arena_->plan().parameters[entry.parameter].name);
    }
    buckets_.push_back(std::move(bucket));
  }
  for (std::size_t index = 0; index < sparse_.size(); ++index)
    units_[arena_->parameters().size() + index] = arena_->buckets() + index;
}

void GradientReducer::State::start_over() {
  take_from_aside();
  has_begun_ = is_sealed_ = has_agreement_ = false;
  arrivals_.assign(parameters(), Arrival::none);
  is_taken_.assign(parameters(), false);
  is_coming_.assign(parameters(), false);
  has_later_passes_ = false;
  aside_.assign(parameters(), torch::Tensor());
  later_.assign(parameters(), torch::Tensor());
  is_open_.assign(parameters(), false);
  is_discarded_.assign(parameters(), false);
  setup_ = 0;
  setup_text_.clear();
  missing_.assign(units(), 1);
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    missing_[bucket] = arena_->plan().buckets[bucket].entries.size();
  started_ = 0;
  works_.assign(units(), Work());
  is_handed_out_.assign(arena_->buckets(), false);
  agreement_work_ = Work();
  problem_.clear();
  changed_.clear();
  stash_.clear();
  order_.clear();
}

void GradientReducer::State::begin_step() {
  has_begun_ = true;
  has_averages_ = false;
  agreement_->begin(sends_usage());
  std::vector<std::string> frozen;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (!tensor(parameter).requires_grad()) {
      add_to_setup(parameter);
      frozen.push_back(name(parameter));
      set_absent(parameter);
    } else if (is_recorded_ && !used_here_[parameter]) {
      set_absent(parameter);
    }
  }
  if (!frozen.empty()) {
    describe_setup(
        fmt::format("rank {} has frozen {}", communicator_.rank(), fmt::join(frozen, ", ")));
  }
  for (const auto& each : arena_->frozen()) {
    if (!each.tensor.requires_grad()) continue;
    add_problem(fmt::format(
        "parameter {} requires a gradient now, but did not when the reducer was made, and is not "
        "averaged; make the reducer while it does (it may be frozen afterwards)",
        each.name));
  }
}

// Fibonacci hashing keeps apart which numbers they are.
void GradientReducer::State::add_to_setup(std::size_t number) {
  setup_ = (setup_ ^ (number + 1)) * 0x9e3779b97f4a7c15;
}

void GradientReducer::State::describe_setup(const std::string& text) {
  setup_text_ += (setup_text_.empty() ? "" : ", ") + text;
}

void GradientReducer::State::gradient_is_ready(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (is_sealed_) {
    throw Error(fmt::format(
        "parallel: parameter {} got a gradient between wait() and finish(); call finish() first",
        name(parameter)));
  }
  if (!has_begun_) begin_step();
  is_coming_[parameter] = false;
  if (is_open_[parameter]) return look_after(parameter);
  Arrival& arrival = arrivals_[parameter];
  if (arrival == Arrival::ready) {  // it waits for others of its unit
    contribute(parameter);
    if (starts_early_) start_complete_units();
    return;
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
  if (starts_early_) start_complete_units();
}

std::shared_ptr<void> GradientReducer::State::take_destination(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  // Elsewhere there is something to add to, or something else to be given back.
  const bool is_whole = quiet_ == 0 && arrivals_[parameter] == Arrival::none &&
                        !is_taken_[parameter] && !tensor(parameter).grad().defined();
  if (!is_whole || is_sparse(parameter) || !options_.gradients_as_views) return nullptr;
  const torch::Tensor& view = arena_->gradient_view(parameter);
  if (view.strides() != tensor(parameter).strides()) return nullptr;
  is_taken_[parameter] = true;
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
    else if (arena_->holds_gradient(parameter))
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
  if (gradient.sizes() != view.sizes()) {
    throw Error(fmt::format(
        "parallel: the gradient of {} is [{}], the parameter [{}]; a network has one reducer or "
        "optimizer of kolo's at a time, and another one is averaging its gradients",
        name(parameter), fmt::join(gradient.sizes(), ", "), fmt::join(view.sizes(), ", ")));
  }
  if (!arena_->holds_gradient(parameter))
    view.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  if (options_.gradients_as_views) gradient = view;
}

// Not while one of its gradients is being added to by another thread.
bool GradientReducer::State::is_complete(std::size_t unit) const {
  if (missing_[unit] > 0) return false;
  if (is_sealed_) return true;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (units_[parameter] == unit && is_coming_[parameter]) return false;
  }
  return true;
}

void GradientReducer::State::start_complete_units() {
  while (started_ < units() && is_complete(started_)) {
    const std::size_t unit = started_++;
    start(unit);
    set_aside(unit);
  }
  // Before that, later passes may come.
  if (started_ == units() && is_sealed_) start_agreement();
}

void GradientReducer::State::start(std::size_t unit) {
  if (unit >= arena_->buckets()) return start_sparse(unit);
  const torch::Tensor& gradients = arena_->flat_gradients(unit);
  statistics_.bytes += static_cast<std::int64_t>(gradients.nbytes());
  if (!options_.communicate) return;
  // Not the arena: it has a handle on the communicator, the last of which can't go on its thread.
  CallOptions call{.name = fmt::format("bucket {}", unit), .owner = buckets_[unit]};
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
  agreement_->set_setup(setup_, setup_text_);
  if (!communicates() || (!options_.agree && !options_.unused_parameters)) {
    agreement_->run_alone();
    return;
  }
  agreement_work_ = communicator_.enqueue(
      [agreement = agreement_](const Communicator& communicator) { agreement->run(communicator); },
      {.name = "step agreement"});
}

}  // namespace kolo
