#include <algorithm>
#include <memory>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

// Communicators of the same ranks in orders of their own.
namespace kolo::testing {

namespace {

bool has_orders(const Communicator& communicator) {
  return communicator.size() > 1 && communicator.capabilities().concurrent;
}

RANK_TEST(OwnOrder, CallsOfTwoOrdersMayCross) {
  if (!has_orders(communicator)) return;
  for (const bool is_checked : {false, true}) {
    const auto whole = is_checked ? communicator.checked() : communicator;
    const auto other = whole.with_own_order();
    EXPECT_EQ(other.size(), whole.size());
    EXPECT_EQ(other.rank(), whole.rank());
    EXPECT_EQ(other.topology().node_of_rank, whole.topology().node_of_rank);
    EXPECT_EQ(other.is_checked(), whole.is_checked());
    for (int round = 0; round < 20; ++round) {
      const auto memory = other.allocate(1000 * sizeof(float));
      const std::span values(reinterpret_cast<float*>(memory.get()), 1000);
      std::fill(values.begin(), values.end(), 1.0F);
      Work work;
      if ((whole.rank() + round) % 2 == 0) work = other.all_reduce_async(values);
      EXPECT_EQ(all_reduce_value(whole, 1), whole.size());
      if ((whole.rank() + round) % 2 == 1) work = other.all_reduce_async(values);
      whole.barrier();
      work.wait();
      EXPECT_EQ(std::ranges::count(values, static_cast<float>(whole.size())), std::ssize(values));
    }
  }
}

RANK_TEST(OwnOrder, AnOrderIsGivenOutAgain) {
  if (!has_orders(communicator)) return;
  const auto kept = communicator.with_own_order();
  std::uint32_t group = 0;
  {
    // Some ranks let go of it before others.
    auto first = std::make_unique<Communicator>(communicator.with_own_order());
    group = first->group();
    EXPECT_NE(group, kept.group());
    if (communicator.rank() == 0) first.reset();
    const auto second = communicator.with_own_order();
    EXPECT_NE(second.group(), group);
    EXPECT_NE(second.group(), kept.group());
  }
  EXPECT_EQ(communicator.with_own_order().group(), group);
  EXPECT_EQ(communicator.with_own_order().group(), group);
  if (communicator.is_checked()) return;
  EXPECT_NE(communicator.checked().with_own_order().group(), group);
}

// A rank that has joined takes part in all orders until all have joined.
RANK_TEST(OwnOrder, JoinsAreOfAllOrders) {
  if (!has_orders(communicator)) return;
  const auto whole = communicator.checked();
  const auto one = whole.with_own_order(), other = communicator.checked().with_own_order();
  // Lower ranks make more calls, and none in `whole`.
  for (int call = 0; call < whole.size() - whole.rank(); ++call) {
    const int active = whole.size() - call;
    EXPECT_EQ(all_reduce_value(one, 1), active);
    EXPECT_EQ(all_reduce_value(other, 1), active);
    EXPECT_EQ(one.active_ranks(), active);
  }
  EXPECT_EQ(whole.join(), 0);
  for (const auto& each : {one, other, whole}) {
    EXPECT_EQ(all_reduce_value(each, 1), whole.size());
    EXPECT_EQ(each.active_ranks(), whole.size());
  }
  EXPECT_EQ(whole.join(), whole.size() - 1);  // all at once
}

RANK_TEST(OwnOrder, MistakesInAnOrderAreToldWhenAllHaveJoined) {
  if (!has_orders(communicator) || communicator.size() < 3) return;
  const auto whole = communicator.checked();
  const auto order = whole.with_own_order();
  const auto expect_mismatch = [](const auto& call) {
    EXPECT_TRUE(says(message_of<Error>(call), {"ranks called different collectives"}));
  };
  if (whole.rank() > 1) {
    expect_mismatch([&] { (void)whole.join(); });
  } else {
    expect_mismatch([&] {
      if (whole.rank() == 0)
        order.barrier();
      else
        (void)all_reduce_value(order, 1);
    });
    // Joined ranks still take part.
    EXPECT_EQ(all_reduce_value(order, 1), 2);
    EXPECT_EQ(all_reduce_value(whole, 1), 2);
    (void)whole.join();
  }
  EXPECT_EQ(all_reduce_value(order, 1), whole.size());
  EXPECT_EQ(all_reduce_value(whole, 1), whole.size());
}

RANK_TEST(OwnOrder, ThereAreNoNewOrdersWhileRanksHaveJoined) {
  if (!has_orders(communicator)) return;
  const auto whole = communicator.checked();
  if (whole.rank() == 0) {
    EXPECT_TRUE(says(message_of<Error>([&] { (void)whole.with_own_order(); }),
                     {"make reducers and optimizers before the first join"}));
  }
  (void)whole.join();
  EXPECT_EQ(all_reduce_value(whole, 1), whole.size());
}

}  // namespace

}  // namespace kolo::testing
