#include <utility>

#include "comm/communicator_group.h"
#include "kolo/base/checked.h"
#include "kolo/comm/communicator.h"

// Communicators of the same ranks with orders of their own.
namespace kolo {

std::vector<std::shared_ptr<Communicator::Group>> Communicator::Group::Companions::of_kind(
    bool is_checked) {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Group>> found;
  for (const auto& group : groups) {
    if (Communicator(group).is_checked() == is_checked) found.push_back(group);
  }
  return found;
}

// Ranks may have let go of one at different times, so they agree on the first of those that are
// free, with all after them, on every rank.
Communicator Communicator::with_own_order() const {
  if (size() == 1 || !capabilities().concurrent) return *this;
  std::int64_t first_free = 0;
  {
    const auto made = group_->companions->of_kind(is_checked());
    constexpr long own_shares = 2;  // in the list, and here
    for (std::size_t place = 0; place < made.size(); ++place) {
      if (made[place].use_count() > own_shares) first_free = narrow<std::int64_t>(place) + 1;
    }
  }
  all_reduce(std::span(&first_free, 1), ReduceOp::max, {.name = "an order of its own"});
  require_all_ranks(
      "comm: an order of its own while ranks have joined: they can't take part in new ones; make "
      "reducers and optimizers before the first join");
  const auto made = group_->companions->of_kind(is_checked());
  if (const auto place = static_cast<std::size_t>(first_free); place < made.size())
    return Communicator(made[place]);
  auto companion = make_set(0, rank()).value();
  companion.group_->listeners = group_->listeners;
  const std::lock_guard lock(group_->companions->mutex);
  group_->companions->groups.push_back(companion.group_);
  return companion;
}

}  // namespace kolo
