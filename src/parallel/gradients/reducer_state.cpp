#include "parallel/gradients/reducer_state.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fingerprint.h"
#include "kolo/base/error.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/object_collectives.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

// A maximum tells every rank whether a value is the same everywhere when its complement travels
// with it: where a byte differs, no rank has both the maximum of the byte and of its complement.
void StepAgreement::run(const Communicator& communicator) {
  const std::uint64_t of_rates =
      fingerprint_of({reinterpret_cast<const char*>(rates.data()), rates.size() * sizeof(double)});
  const std::uint64_t values[] = {setup, ~setup, of_rates, ~of_rates};
  constexpr std::size_t head = 1 + sizeof(values);
  message_.resize(head);
  message_[0] = problem.empty() ? 0 : 1;
  std::memcpy(&message_[1], values, sizeof(values));
  if (with_usage) message_.insert(message_.end(), used.begin(), used.end());
  communicator.all_reduce(std::span(message_), ReduceOp::max, {.name = "step agreement"});
  if (with_usage) {
    std::copy(message_.begin() + static_cast<std::ptrdiff_t>(head), message_.end(), used.begin());
  }
  const bool is_trouble = message_[0] != 0;
  const bool is_setup_equal = std::memcmp(&message_[1], values, sizeof(values) / 2) == 0;
  const bool are_rates_equal =
      std::memcmp(&message_[1 + sizeof(values) / 2], &values[2], sizeof(values) / 2) == 0;
  if (!is_trouble && is_setup_equal && are_rates_equal) return;
  const std::string mine = is_trouble ? problem
                           : !is_setup_equal
                               ? setup_text
                               : fmt::format("rank {} steps with a learning rate of {}",
                                             communicator.rank(), fmt::join(rates, ", "));
  const auto texts = all_gather_bytes(communicator, mine);
  error = is_trouble ? "parallel: " : "parallel: the ranks' steps differ: ";
  for (const std::string& text : texts) {
    if (!text.empty()) error += (error.back() == ' ' ? "" : "\n") + text;
  }
}

void StepAgreement::run_alone() {
  if (!problem.empty()) error = "parallel: " + problem;
}

void StepAgreement::start_over() {
  with_usage = false;
  problem.clear();
  setup = 0;
  setup_text.clear();
  error.clear();
}

// A step before and during backward; the rest is in reducer_finish.cpp.

GradientReducer::State::State(const Communicator& communicator,
                              std::shared_ptr<ParameterArena> arena, ReducerOptions options)
    : communicator_(arena->gradient_communicator(communicator)),
      arena_(std::move(arena)),
      options_(std::move(options)),
      units_(communicator_, arena_, options_),
      clock_(arena_->device()),
      starts_early_(options_.overlap),
      is_order_wanted_(options_.rebuild_buckets.value_or(false) && communicates()) {
  if (options_.static_graph && !options_.unused_parameters) {
    throw Error(
        "parallel: static_graph without unused_parameters; there is nothing to note where all "
        "parameters must be used");
  }
  // Unless communicators are concurrent, gradients share the program's order of calls. Ranks may
  // start different buckets in backward, so communication starts after it.
  if (communicates() && !communicator_.capabilities().concurrent) starts_early_ = false;
  if (units_.are_one_bucket()) starts_early_ = false;  // on devices too, for the same bits
  agreement_->used.resize(parameters());
  if (options_.hook) hook_bytes_before_ = options_.hook->bytes_sent();
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter)
    pending_.emplace_back(tensor(parameter), name(parameter));
  start_over();
}

GradientReducer::State::~State() {
  for (PendingGradient& pending : pending_) pending.release();
  for (std::size_t parameter = 0; parameter < tensor_hooks_.size(); ++parameter)
    tensor(parameter).remove_hook(tensor_hooks_[parameter]);
}

void GradientReducer::State::attach() {
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter)
    require_no_averager(tensor(parameter), name(parameter));
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
      },
      weak_from_this());
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

void GradientReducer::State::start_over() {
  for (PendingGradient& pending : pending_) pending.reset();
  has_begun_ = is_sealed_ = false;
  arrivals_.assign(parameters(), Arrival::none);
  is_taken_.assign(parameters(), false);
  is_coming_.assign(parameters(), false);
  has_later_passes_ = false;
  missing_.assign(units_.size(), 1);
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket)
    missing_[bucket] = arena_->plan().buckets[bucket].entries.size();
  started_ = 0;
  units_.start_over();
  is_handed_out_.assign(arena_->buckets(), false);
  agreement_work_ = Work();
  agreement_->start_over();
  changed_.clear();
  stash_.clear();
  order_.clear();
}

void GradientReducer::State::begin_step() {
  has_begun_ = true;
  has_averages_ = false;
  agreement_->with_usage = sends_usage();
  std::vector<std::string> frozen;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (!tensor(parameter).requires_grad()) {
      add_to_setup(parameter);
      frozen.push_back(name(parameter));
      set_absent(parameter);
    } else if (is_graph_known_ && !used_here_[parameter]) {
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

// Mixes a number in by Fibonacci hashing, so that different numbers give different setups.
void GradientReducer::State::add_to_setup(std::size_t number) {
  agreement_->setup = (agreement_->setup ^ (number + 1)) * 0x9e3779b97f4a7c15;
}

void GradientReducer::State::describe_setup(const std::string& text) {
  agreement_->setup_text += (agreement_->setup_text.empty() ? "" : ", ") + text;
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
  if (pending_[parameter].is_open()) return look_after(parameter);
  Arrival& arrival = arrivals_[parameter];
  if (arrival == Arrival::ready) {  // it waits for others of its unit
    contribute(parameter);
    hold(parameter);
    if (starts_early_) start_complete_units();
    return;
  }
  if (arrival == Arrival::absent) {
    add_problem(fmt::format("parameter {} got a gradient, but {}", name(parameter),
                            is_graph_known_ ? "none in the first step; without static_graph the "
                                              "parameters used may change"
                                            : "was frozen when the step began"));
    return;
  }
  if (no_sync_scopes_ > 0) {
    arrival = Arrival::accumulated;
    return;
  }
  set_ready(parameter);
  hold(parameter);
  if (is_order_wanted_ && !is_sparse(parameter)) order_.push_back(parameter);
  if (starts_early_) start_complete_units();
}

bool GradientReducer::State::is_under_way(std::size_t parameter) const {
  return units_.unit_of(parameter) < started_ && arrivals_[parameter] == Arrival::ready;
}

// A gradient is about to be added to grad(); gradient_is_ready() follows, unless autograd only
// computes it (torch::autograd::grad()) or the parameter's accumulator is no longer the one with
// our hook.
void GradientReducer::State::gradient_comes(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (is_sealed_) return;
  pending_[parameter].drop_kept();
  is_coming_[parameter] = true;
  if (!is_under_way(parameter)) return take_back(parameter);
  look_after(parameter);
  pending_[parameter].open();
}

// Without overlap grad() is this rank's own until finish(). Sparse gradients are read from grad()
// when their average begins.
void GradientReducer::State::hold(std::size_t parameter) {
  if (options_.overlap && !(is_sparse(parameter) && starts_early_)) pending_[parameter].hold();
}

// Undoes hold(), before the average has begun.
void GradientReducer::State::take_back(std::size_t parameter) {
  if (!pending_[parameter].is_held()) return;
  const auto fate = pending_[parameter].give_back();
  if (fate == PendingGradient::Fate::changed) changed_.push_back(name(parameter));
  if (fate != PendingGradient::Fate::zeroed) return;
  arrivals_[parameter] = Arrival::none;
  ++missing_[units_.unit_of(parameter)];
}

torch::Tensor GradientReducer::State::gradient_of(std::size_t parameter) const {
  return pending_[parameter].is_kept() ? torch::Tensor() : tensor(parameter).grad();
}

// Notes the program's changes to a gradient whose average is under way.
void GradientReducer::State::look_after(std::size_t parameter) {
  if (!pending_[parameter].look()) changed_.push_back(name(parameter));
}

std::shared_ptr<void> GradientReducer::State::take_destination(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  // Only a whole gradient may be computed in the arena's memory, nothing that is added to another
  // one. After `accumulated` it is whole if the program has undefined grad() since.
  const Arrival arrival = arrivals_[parameter];
  const bool is_first = arrival == Arrival::none || arrival == Arrival::accumulated;
  const bool is_whole = no_sync_scopes_ == 0 && is_first && !is_taken_[parameter] &&
                        !tensor(parameter).grad().defined();
  if (!is_whole || is_sparse(parameter)) return nullptr;
  const torch::Tensor& view = arena_->gradient_view(parameter);
  if (view.strides() != tensor(parameter).strides()) return nullptr;
  is_taken_[parameter] = true;
  return {std::make_shared<torch::Tensor>(view), view.data_ptr()};
}

void GradientReducer::State::set_ready(std::size_t parameter) {
  contribute(parameter);
  if (!is_sparse(parameter)) arena_->set_idle(parameter, false);
  arrivals_[parameter] = Arrival::ready;
  --missing_[units_.unit_of(parameter)];
}

// Without a gradient of this step, a parameter contributes what its grad() holds: a gradient left
// from before is the same on all ranks, and adding to it anywhere must give the same everywhere.
void GradientReducer::State::set_absent(std::size_t parameter) {
  if (!is_sparse(parameter)) {
    const torch::Tensor gradient = gradient_of(parameter);
    const torch::Tensor& view = arena_->gradient_view(parameter);
    const torch::NoGradGuard no_gradient;
    if (!gradient.defined())
      view.zero_();
    else if (arena_->holds_gradient(parameter))
      stash_[parameter] = view.clone();
    else
      view.copy_(parallel::dense(gradient));
  }
  arrivals_[parameter] = Arrival::absent;
  --missing_[units_.unit_of(parameter)];
}

void GradientReducer::State::contribute(std::size_t parameter) {
  if (is_sparse(parameter)) return;
  torch::Tensor& gradient = tensor(parameter).mutable_grad();
  const torch::Tensor& view = arena_->gradient_view(parameter);
  const torch::NoGradGuard no_gradient;
  if (!arena_->holds_gradient(parameter))
    view.copy_(parallel::dense(gradient));
  gradient = view;
}

// A unit is incomplete while another thread adds to one of its gradients.
bool GradientReducer::State::is_complete(std::size_t unit) const {
  if (missing_[unit] > 0) return false;
  if (is_sealed_) return true;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (units_.unit_of(parameter) == unit && is_coming_[parameter]) return false;
  }
  return true;
}

void GradientReducer::State::start_complete_units() {
  while (started_ < units_.size() && is_complete(started_)) {
    const std::size_t unit = started_++;
    start(unit);
    for (const std::size_t parameter : units_.parameters_of(unit)) {
      if (arrivals_[parameter] == Arrival::ready) pending_[parameter].hold();
    }
  }
  // Later passes may come until the step is sealed.
  if (started_ == units_.size() && is_sealed_) start_agreement();
}

void GradientReducer::State::start_agreement() {
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter)
    agreement_->used[parameter] = arrivals_[parameter] == Arrival::ready ? 1 : 0;
  if (!communicates()) return agreement_->run_alone();
  if (units_.are_done_at_once()) return agreement_->run(communicator_);
  agreement_work_ = communicator_.enqueue(
      [agreement = agreement_](const Communicator& communicator) { agreement->run(communicator); },
      {.name = "step agreement"});
}

}  // namespace kolo
