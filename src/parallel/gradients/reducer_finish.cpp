#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "parallel/gradients/reducer_state.h"
#include "parallel/gradients/step_agreement.h"

// What happens after backward.
namespace kolo {

void GradientReducer::State::seal() {
  if (is_sealed_) return;
  if (!has_begun_) begin_step();
  is_sealed_ = true;
  const std::string changes = arena_->take_back_parameters();
  attach_anew();
  const bool is_untouched = std::none_of(arrivals_.begin(), arrivals_.end(), [](Arrival arrival) {
    return arrival == Arrival::accumulated || arrival == Arrival::ready;
  });
  std::vector<std::string> missing;
  settle_passes(missing);
  settle_arrivals(missing);
  if (!changes.empty()) {
    add_problem(changes);
  } else if (!missing.empty()) {
    add_problem((is_untouched
                     ? "there was no backward() in this step, since the last finish() or step(): "
                     : "") +
                missing_gradients(missing));
  }
  if (problem_.empty() || options_.agree || options_.unused_parameters)
    start_complete_units();
  else
    has_agreement_ = true;  // none: fail() tells this rank only, and nothing more is started
}

// Of what has not been started: grad() as it is now counts, which users may have zeroed.
void GradientReducer::State::settle_arrivals(std::vector<std::string>& missing) {
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    Arrival& arrival = arrivals_[parameter];
    if (arrival == Arrival::absent || is_under_way(parameter)) continue;
    if (arrival == Arrival::ready) ++missing_[units_[parameter]];
    if (arrival != Arrival::none && tensor(parameter).grad().defined()) {
      set_ready(parameter);
    } else {
      if (!tensor(parameter).requires_grad()) {
        add_to_setup(parameter);
        describe_setup(fmt::format("rank {} has frozen {} during the step", communicator_.rank(),
                                   name(parameter)));
      } else if (!sends_usage()) {
        missing.push_back(name(parameter));
      }
      set_absent(parameter);
    }
  }
}

void GradientReducer::State::add_problem(const std::string& problem) {
  problem_ += problem_.empty() ? fmt::format("rank {}: ", communicator_.rank()) : "; ";
  problem_ += problem;
}

std::string GradientReducer::State::missing_gradients(const std::vector<std::string>& names) const {
  return fmt::format("backward gave no gradient to {}; {}", fmt::join(names, ", "),
                     is_recorded_
                         ? "in the first step it did, and the graph is said to be static; without "
                           "static_graph the parameters used may change"
                         : "every trainable parameter must take part in the loss (or not require a "
                           "gradient), unless the reducer is made with unused_parameters");
}

void GradientReducer::State::wait(std::size_t bucket) {
  {
    const std::lock_guard lock(mutex_);
    seal();
  }
  if (!problem_.empty()) fail();
  average_later_passes();
  await(works_[bucket]);
  const auto& entries = arena_->plan().buckets[bucket].entries;
  const bool has_absent = std::any_of(
      entries.begin(), entries.end(),
      [&](const BucketEntry& entry) { return arrivals_[entry.parameter] == Arrival::absent; });
  // Whether somebody else has used them is known at the end only.
  if (has_absent && sends_usage()) await_agreement();
  for (const auto& entry : entries) {
    if (arrivals_[entry.parameter] == Arrival::absent) settle_absent(entry.parameter);
  }
  if (!is_handed_out_[bucket]) {
    is_handed_out_[bucket] = true;
    for (const auto& entry : entries) {
      if (arrivals_[entry.parameter] == Arrival::ready) hand_out(entry.parameter);
    }
  }
  if (bucket + 1 == arena_->buckets()) await_agreement();
}

void GradientReducer::State::await(const Work& work) {
  const Stopwatch watch;
  try {
    work.wait();
  } catch (...) {
    drain();
    start_over();
    throw;
  }
  statistics_.exposed_seconds += watch.seconds();
}

void GradientReducer::State::await_agreement() {
  await(agreement_work_);
  if (!agreement_->error().empty()) fail();
}

void GradientReducer::State::fail() {
  drain();
  const std::string message =
      agreement_->error().empty() ? "parallel: " + problem_ : agreement_->error();
  start_over();
  throw Error(message);
}

// After a failure: nothing may go on writing into the arena.
void GradientReducer::State::drain() {
  works_.push_back(agreement_work_);
  for (const Work& work : works_) {
    try {
      work.wait();
    } catch (...) {  // NOLINT: the first failure is the one that is told
    }
  }
}

void GradientReducer::State::finish() {
  {
    const std::lock_guard lock(mutex_);
    seal();
  }
  if (!problem_.empty()) fail();
  average_later_passes();
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) wait(bucket);
  for (std::size_t unit = arena_->buckets(); unit < units(); ++unit) await(works_[unit]);
  await_agreement();
  const std::lock_guard lock(mutex_);
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (!is_sparse(parameter)) continue;
    if (arrivals_[parameter] != Arrival::absent || is_used_anywhere(parameter)) hand_out(parameter);
  }
  for (SparseGradient& sparse : sparse_)
    statistics_.bytes += std::exchange(sparse.result, nullptr)->bytes;
  record_graph();
  rebuild_buckets();
  start_over();
  has_averages_ = true;
  ++statistics_.steps;
}

void GradientReducer::State::take_averages() {
  if (has_averages_)
    settle_averages();
  else
    finish();
  has_averages_ = false;
}

// Of a step between whose finish() and whose update the program has had its hands on everything.
void GradientReducer::State::settle_averages() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> discarded;
  for (std::size_t parameter = 0; parameter < arena_->parameters().size(); ++parameter) {
    if (!arena_->takes_part(parameter) || tensor(parameter).grad().defined()) continue;
    add_to_setup(parameter);
    discarded.push_back(name(parameter));
    arena_->set_idle(parameter, true);
  }
  agreement_->begin(false);
  agreement_->set_problem(arena_->take_back_parameters());
  agreement_->set_setup(
      setup_, fmt::format("rank {} has discarded the averages of {} (do so on all ranks, or none)",
                          communicator_.rank(),
                          discarded.empty() ? "no parameter"
                                            : fmt::format("{}", fmt::join(discarded, ", "))));
  if (communicates() && options_.agree)
    agreement_->run(communicator_);
  else
    agreement_->run_alone();
  setup_ = 0;
  has_averages_ = false;
  if (!agreement_->error().empty()) throw Error(agreement_->error());
}

// The average becomes grad().
void GradientReducer::State::hand_out(std::size_t parameter) {
  torch::Tensor& gradient = tensor(parameter).mutable_grad();
  if (aside_[parameter].defined()) gradient = std::exchange(aside_[parameter], torch::Tensor());
  if (is_sparse(parameter)) {
    gradient = sparse_[parameter - arena_->parameters().size()].result->gradient;
    return;
  }
  const torch::Tensor& view = arena_->gradient_view(parameter);
  const torch::NoGradGuard no_gradient;
  if (options_.gradients_as_views)
    gradient = view;
  else if (!gradient.defined() || gradient.is_sparse() || arena_->holds_gradient(parameter))
    gradient = view.clone();
  else
    gradient.copy_(view);
}

void GradientReducer::State::settle_absent(std::size_t parameter) {
  if (is_used_anywhere(parameter)) {
    arena_->set_idle(parameter, false);
    return hand_out(parameter);
  }
  arena_->set_idle(parameter, !tensor(parameter).grad().defined());
  const auto stashed = stash_.find(parameter);
  if (stashed == stash_.end()) return;
  const torch::NoGradGuard no_gradient;
  arena_->gradient_view(parameter).copy_(stashed->second);
}

bool GradientReducer::State::is_used_anywhere(std::size_t parameter) const {
  if (is_recorded_) return used_anywhere_[parameter] && tensor(parameter).requires_grad();
  return options_.unused_parameters && agreement_->is_used(parameter);
}

// Not while a rank has joined: it would not have noted anything.
void GradientReducer::State::record_graph() {
  if (!options_.static_graph || is_recorded_) return;
  if (communicates() && communicator_.active_ranks() < communicator_.size()) return;
  used_here_.assign(parameters(), false);
  used_anywhere_.assign(parameters(), false);
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    used_here_[parameter] = arrivals_[parameter] == Arrival::ready;
    used_anywhere_[parameter] = agreement_->is_used(parameter);
  }
  is_recorded_ = true;
}

// The order of the places added up over the ranks, so that it needs no root. Parameters without a
// gradient come last, and ties in the order of a first plan.
void GradientReducer::State::rebuild_buckets() {
  if (!is_order_wanted_) return;
  const auto count = arena_->parameters().size();
  std::vector<std::int64_t> places(count, static_cast<std::int64_t>(count));
  for (std::size_t place = 0; place < order_.size(); ++place)
    places[order_[place]] = static_cast<std::int64_t>(place);
  communicator_.all_reduce(std::span(places), ReduceOp::sum, {.name = "order of buckets"});
  if (communicator_.active_ranks() < communicator_.size()) return;
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return places[a] < places[b]; });
  is_order_wanted_ = false;
  if (!arena_->rebuild(communicator_, order)) return;
  lay_out();
  if (options_.hook) options_.hook->buckets_changed();
}

}  // namespace kolo
