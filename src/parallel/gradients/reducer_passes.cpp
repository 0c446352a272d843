#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "parallel/gradients/gradient_placeholder.h"
#include "parallel/gradients/reducer_state.h"

// Several backward passes in one step. A unit that has been started is being averaged and can't be
// added to: its parameters' grad() is a placeholder, and what comes later is averaged by itself
// after everything else, and added. After such a step units are no longer started during backward,
// so that passes add up where they are.
namespace kolo {

namespace {

torch::Tensor made_dense(const torch::Tensor& gradient) {
  return gradient.is_sparse() ? gradient.to_dense() : gradient;
}

}  // namespace

bool GradientReducer::State::is_under_way(std::size_t parameter) const {
  return units_[parameter] < started_ && arrivals_[parameter] == Arrival::ready;
}

// A gradient is about to be added to grad(); gradient_is_ready() follows, unless autograd only
// computes it (torch::autograd::grad()) or the parameter's accumulator is no longer the one with
// our hook.
void GradientReducer::State::gradient_comes(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (is_sealed_) return;
  is_coming_[parameter] = true;
  if (!is_under_way(parameter)) return;
  look_after(parameter);
  tensor(parameter).mutable_grad() = later_[parameter];
  is_open_[parameter] = true;
}

// Of a parameter that is under way: what has happened to its gradient meanwhile.
void GradientReducer::State::look_after(std::size_t parameter) {
  torch::Tensor& gradient = tensor(parameter).mutable_grad();
  if (is_open_[parameter]) {
    later_[parameter] = gradient;
    is_open_[parameter] = false;
  } else if (const auto fate = placeholders_[parameter].fate(gradient);
             fate == GradientPlaceholder::Fate::zeroed) {
    is_discarded_[parameter] = true;
    later_[parameter] = torch::Tensor();
  } else if (fate == GradientPlaceholder::Fate::changed) {
    changed_.push_back(name(parameter));
  }
  gradient = placeholders_[parameter].renewed();
}

void GradientReducer::State::set_aside(std::size_t unit) {
  const auto take = [&](std::size_t parameter) {
    if (arrivals_[parameter] != Arrival::ready) return;
    torch::Tensor& gradient = tensor(parameter).mutable_grad();
    aside_[parameter] = gradient;
    gradient = placeholders_[parameter].renewed();
  };
  if (unit >= arena_->buckets())
    return take(arena_->parameters().size() + unit - arena_->buckets());
  for (const auto& entry : arena_->plan().buckets[unit].entries) take(entry.parameter);
}

// Whatever happens, nobody is left with a placeholder.
void GradientReducer::State::take_from_aside() {
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    torch::Tensor& gradient = tensor(parameter).mutable_grad();
    if (is_open_[parameter] || placeholders_[parameter].is(gradient)) gradient = aside_[parameter];
  }
}

// In seal(): gradients that were zeroed while they were averaged are gone.
void GradientReducer::State::settle_passes(std::vector<std::string>& missing) {
  std::vector<std::string> discarded;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (!is_under_way(parameter)) continue;
    look_after(parameter);
    if (is_discarded_[parameter]) {
      discarded.push_back(name(parameter));
      add_to_setup(parameter);
    }
    has_later_passes_ =
        has_later_passes_ || is_discarded_[parameter] || later_[parameter].defined();
    if (!is_discarded_[parameter] || later_[parameter].defined()) continue;
    arrivals_[parameter] = Arrival::absent;
    tensor(parameter).mutable_grad() = torch::Tensor();
    if (tensor(parameter).requires_grad() && !sends_usage()) missing.push_back(name(parameter));
  }
  if (!changed_.empty()) {
    add_problem(
        fmt::format("the gradient of {} was changed after backward(), while the ranks average it; "
                    "call finish() "
                    "first, of the reducer or the optimizer, and then clip or change gradients",
                    fmt::join(changed_, ", ")));
  }
  if (!has_later_passes_) return;
  add_to_setup(parameters());
  describe_setup(
      fmt::format("rank {} had several backward() in this step (make as many on every rank, or all "
                  "but the last "
                  "in the scope of no_sync())",
                  communicator_.rank()));
  if (!discarded.empty())
    describe_setup(fmt::format("and has zeroed since the first {}", fmt::join(discarded, ", ")));
}

// Not before all ranks are known to do the same.
void GradientReducer::State::average_later_passes() {
  if (!has_later_passes_) return;
  for (const Work& work : works_) await(work);
  await_agreement();
  const torch::NoGradGuard no_gradient;
  for (std::size_t unit = 0; unit < units(); ++unit) {
    if (unit < arena_->buckets())
      average_again(unit);
    else
      average_sparse_again(unit);
  }
  has_later_passes_ = false;
  starts_early_ = false;
}

void GradientReducer::State::average_again(std::size_t bucket) {
  const torch::Tensor& flat = arena_->flat_gradients(bucket);
  const torch::Tensor averaged = flat.clone();
  for (const auto& entry : arena_->plan().buckets[bucket].entries) {
    const torch::Tensor& later = later_[entry.parameter];
    const torch::Tensor& view = arena_->gradient_view(entry.parameter);
    if (is_discarded_[entry.parameter]) averaged.narrow(0, entry.offset, entry.count).zero_();
    if (later.defined())
      view.copy_(made_dense(later));
    else
      view.zero_();
  }
  start(bucket);
  await(works_[bucket]);
  flat.add_(averaged);
}

void GradientReducer::State::average_sparse_again(std::size_t unit) {
  const auto parameter = arena_->parameters().size() + unit - arena_->buckets();
  SparseGradient& sparse = sparse_[unit - arena_->buckets()];
  const auto first = sparse.result;
  tensor(parameter).mutable_grad() = later_[parameter];
  start(unit);
  await(works_[unit]);
  if (is_discarded_[parameter] || !first->gradient.defined()) return;
  sparse.result->bytes += first->bytes;
  torch::Tensor& sum = sparse.result->gradient;
  sum = sum.defined() ? (sum + first->gradient).coalesce() : first->gradient;
}

}  // namespace kolo
