#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "parallel/gradients/reducer_state.h"
#include "parallel/tensors/tensors.h"

// A step after backward.
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
  auto begin = clock_.now();
  try {
    start_complete_units();
  } catch (...) {
    drain();
    start_over();
    throw;
  }
  if (units_.are_done_at_once()) exposed_.add(std::move(begin), clock_.now());
}

// Counts the gradients of units that have not been started as they are now: users may have zeroed
// some.
void GradientReducer::State::settle_arrivals(std::vector<std::string>& missing) {
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    Arrival& arrival = arrivals_[parameter];
    if (arrival == Arrival::absent || is_under_way(parameter)) continue;
    if (arrival == Arrival::ready) ++missing_[units_.unit_of(parameter)];
    if (arrival != Arrival::none && gradient_of(parameter).defined()) {
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
  agreement_->problem +=
      agreement_->problem.empty() ? fmt::format("rank {}: ", communicator_.rank()) : "; ";
  agreement_->problem += problem;
}

std::string GradientReducer::State::missing_gradients(const std::vector<std::string>& names) const {
  return fmt::format("backward gave no gradient to {}; {}", fmt::join(names, ", "),
                     is_graph_known_
                         ? "in the first step it did, and the graph is said to be static; without "
                           "static_graph the parameters used may change"
                         : "every trainable parameter must take part in every loss: let the others "
                           "not require a gradient (model.freeze of kolo train), or make the "
                           "reducer with unused_parameters");
}

// Drops gradients that were zeroed while they were averaged; called by seal().
void GradientReducer::State::settle_passes(std::vector<std::string>& missing) {
  std::vector<std::string> discarded, stale;
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    const bool was_under_way = is_under_way(parameter);
    if (was_under_way)
      look_after(parameter);
    else
      take_back(parameter);
    if (pending_[parameter].is_stale()) stale.push_back(name(parameter));
    if (!was_under_way) continue;
    if (pending_[parameter].is_discarded()) {
      discarded.push_back(name(parameter));
      add_to_setup(parameter);
    }
    has_later_passes_ = has_later_passes_ || pending_[parameter].is_discarded() ||
                        pending_[parameter].later().defined();
    if (!pending_[parameter].is_discarded() || pending_[parameter].later().defined()) continue;
    arrivals_[parameter] = Arrival::absent;
    tensor(parameter).mutable_grad() = torch::Tensor();
    if (tensor(parameter).requires_grad() && !sends_usage()) missing.push_back(name(parameter));
  }
  if (!changed_.empty()) {
    add_problem(
        fmt::format("the gradient of {} was changed after backward(), while the ranks average it; "
                    "call finish() first, of the reducer or the optimizer, and then clip or change "
                    "gradients",
                    fmt::join(changed_, ", ")));
  }
  if (!stale.empty()) {
    add_problem(fmt::format(
        "there was no zero_grad() between the last step and this backward(): the gradient of {} "
        "can't be added to what was left, of which a sharded optimizer has averaged a part; for "
        "passes that add up use no_sync()",
        fmt::join(stale, ", ")));
  }
  if (!has_later_passes_) return;
  add_to_setup(parameters());  // the number of no parameter
  describe_setup(
      fmt::format("rank {} had several backward() in this step (make as many on every rank, or all "
                  "but the last in the scope of no_sync())",
                  communicator_.rank()));
  if (!discarded.empty())
    describe_setup(fmt::format("and has zeroed since the first {}", fmt::join(discarded, ", ")));
}

// Averages later passes' gradients once all ranks are known to have some.
void GradientReducer::State::average_later_passes() {
  if (!has_later_passes_) return;
  for (const Work& work : units_.works()) await(work);
  await_agreement();
  const torch::NoGradGuard no_gradient;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
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
    const PendingGradient& pending = pending_[entry.parameter];
    const torch::Tensor& view = arena_->gradient_view(entry.parameter);
    if (pending.is_discarded()) averaged.narrow(0, entry.offset, entry.count).zero_();
    if (pending.later().defined())
      view.copy_(parallel::dense(pending.later()));
    else
      view.zero_();
  }
  start(bucket);
  await(units_.works()[bucket]);
  flat.add_(averaged);
}

void GradientReducer::State::average_sparse_again(std::size_t unit) {
  const auto parameter = arena_->parameters().size() + unit - arena_->buckets();
  const auto first = units_.sparse_average(parameter);
  tensor(parameter).mutable_grad() = pending_[parameter].later();
  start(unit);
  await(units_.works()[unit]);
  if (pending_[parameter].is_discarded() || !first->gradient.defined()) return;
  units_.sparse_average(parameter)->bytes += first->bytes;
  torch::Tensor& sum = units_.sparse_average(parameter)->gradient;
  sum = sum.defined() ? (sum + first->gradient).coalesce() : first->gradient;
}

void GradientReducer::State::end_backward() {
  {
    const std::lock_guard lock(mutex_);
    seal();
  }
  if (!agreement_->problem.empty()) fail();
  average_later_passes();
}

void GradientReducer::State::wait(std::size_t bucket) {
  end_backward();
  await(units_.works()[bucket]);
  const auto& entries = arena_->plan().buckets[bucket].entries;
  const bool has_absent = std::any_of(
      entries.begin(), entries.end(),
      [&](const BucketEntry& entry) { return arrivals_[entry.parameter] == Arrival::absent; });
  // The agreement tells whether other ranks have used them.
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
  auto begin = clock_.now();
  try {
    work.wait();
  } catch (...) {
    drain();
    start_over();
    throw;
  }
  exposed_.add(std::move(begin), clock_.now());
}

void GradientReducer::State::await_agreement() {
  await(agreement_work_);
  if (!agreement_->error.empty()) fail();
}

void GradientReducer::State::fail() {
  drain();
  const std::string message =
      agreement_->error.empty() ? "parallel: " + agreement_->problem : agreement_->error;
  start_over();
  throw Error(message);
}

// Waits for all works after a failure, so that none goes on writing into the arena.
void GradientReducer::State::drain() {
  auto works = units_.works();
  works.push_back(agreement_work_);
  for (const Work& work : works) {
    try {
      work.wait();
    } catch (...) {  // NOLINT: the first failure is the one that is told
    }
  }
}

void GradientReducer::State::finish() {
  end_backward();
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) wait(bucket);
  for (std::size_t unit = arena_->buckets(); unit < units_.size(); ++unit)
    await(units_.works()[unit]);
  await_agreement();
  const std::lock_guard lock(mutex_);
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    if (!is_sparse(parameter)) continue;
    if (arrivals_[parameter] != Arrival::absent || is_used_anywhere(parameter)) hand_out(parameter);
  }
  statistics_.bytes += units_.release_sparse_averages();
  note_graph();
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

// Takes in what the program has done to gradients between finish() and the update.
void GradientReducer::State::settle_averages() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> discarded, changed;
  for (std::size_t parameter = 0; parameter < arena_->parameters().size(); ++parameter) {
    if (!arena_->takes_part(parameter)) continue;
    if (pending_[parameter].is_kept() &&
        pending_[parameter].look_at_kept() == PendingGradient::Fate::changed)
      changed.push_back(name(parameter));
    if (tensor(parameter).grad().defined()) continue;
    add_to_setup(parameter);
    discarded.push_back(name(parameter));
    arena_->set_idle(parameter, true);
  }
  agreement_->problem =
      changed.empty()
          ? arena_->take_back_parameters()
          : fmt::format(
                "rank {}: the gradient of {} was changed after finish(), which averages "
                "this rank's part of it only; use clip_gradients()",
                communicator_.rank(), fmt::join(changed, ", "));
  agreement_->setup_text = fmt::format(
      "rank {} has discarded the averages of {} (do so on all ranks, or none)",
      communicator_.rank(),
      discarded.empty() ? "no parameter" : fmt::format("{}", fmt::join(discarded, ", ")));
  if (communicates())
    agreement_->run(communicator_);
  else
    agreement_->run_alone();
  const std::string error = agreement_->error;
  agreement_->start_over();
  if (!error.empty()) throw Error(error);
}

void GradientReducer::State::hand_out(std::size_t parameter) {
  const bool is_left = !options_.averages && !is_sparse(parameter);
  if (is_left || (options_.hook && !options_.hook->averages_all()))
    return pending_[parameter].keep();
  pending_[parameter].end(is_sparse(parameter) ? units_.sparse_average(parameter)->gradient
                                               : arena_->gradient_view(parameter));
}

void GradientReducer::State::settle_absent(std::size_t parameter) {
  if (is_used_anywhere(parameter)) {
    arena_->set_idle(parameter, false);
    return hand_out(parameter);
  }
  arena_->set_idle(parameter, !gradient_of(parameter).defined());
  const auto stashed = stash_.find(parameter);
  if (stashed == stash_.end()) return;
  const torch::NoGradGuard no_gradient;
  arena_->gradient_view(parameter).copy_(stashed->second);
}

bool GradientReducer::State::is_used_anywhere(std::size_t parameter) const {
  if (is_graph_known_) return used_anywhere_[parameter] && tensor(parameter).requires_grad();
  return options_.unused_parameters && agreement_->used[parameter] != 0;
}

// Postponed while any rank has joined, since that would note nothing.
void GradientReducer::State::note_graph() {
  if (!options_.static_graph || is_graph_known_) return;
  if (communicates() && communicator_.active_ranks() < communicator_.size()) return;
  used_here_.assign(parameters(), false);
  used_anywhere_.assign(parameters(), false);
  for (std::size_t parameter = 0; parameter < parameters(); ++parameter) {
    used_here_[parameter] = arrivals_[parameter] == Arrival::ready;
    used_anywhere_[parameter] = agreement_->used[parameter] != 0;
  }
  is_graph_known_ = true;
}

// Orders parameters by their positions added up over the ranks, which needs no root. Those without
// a gradient come last, ties in the order of a first plan.
void GradientReducer::State::rebuild_buckets() {
  if (!is_order_wanted_) return;
  const auto count = arena_->parameters().size();
  std::vector<std::int64_t> positions(count, static_cast<std::int64_t>(count));
  for (std::size_t position = 0; position < order_.size(); ++position)
    positions[order_[position]] = static_cast<std::int64_t>(position);
  communicator_.all_reduce(std::span(positions), ReduceOp::sum, {.name = "order of buckets"});
  if (communicator_.active_ranks() < communicator_.size()) return;
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return positions[a] < positions[b]; });
  is_order_wanted_ = false;
  if (!arena_->rebuild(communicator_, order)) return;
  units_.lay_out();
  if (options_.hook) options_.hook->buckets_changed();
}

}  // namespace kolo
