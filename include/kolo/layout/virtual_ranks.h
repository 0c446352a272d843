#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"

// Virtual ranks: a global batch in V parts, each with the samples and the random numbers of a rank
// of its own, which R ranks compute, each some consecutive ones. The parts' results are added up in
// one order, whatever R is, so that sums of floating-point numbers have the same bits.
//
// The order is a binary tree over the parts: 2k and 2k + 1 first, then pairs of pairs; a sum
// without a partner goes up as it is. So a rank hands over one sum for each largest subtree of its
// parts: one if R and V are powers of two, never more than 2 log2(V).
namespace kolo {

// Consecutive parts.
struct PartRange {
  int first = 0;
  int end = 0;
  [[nodiscard]] int size() const { return end - first; }
  bool operator==(const PartRange&) const = default;
};

// Parts of a rank; some ranks have one more than others if R does not divide V. Error unless 0 <=
// rank < ranks <= parts.
[[nodiscard]] inline PartRange parts_of_rank(int parts, int ranks, int rank) {
  if (ranks < 1 || parts < ranks || rank < 0 || rank >= ranks) {
    throw Error(
        fmt::format("layout: the parts of rank {} of {}, of {} virtual ranks; expected 0 <= rank < "
                    "ranks <= virtual ranks",
                    rank, ranks, parts));
  }
  const auto begin_of = [&](std::int64_t of) { return static_cast<int>(parts * of / ranks); };
  return {begin_of(rank), begin_of(std::int64_t{rank} + 1)};
}

// A subtree: 2^level parts from index * 2^level on, or fewer at the end.
struct PartialSum {
  int level = 0;
  int index = 0;

  [[nodiscard]] PartialSum parent() const { return {level + 1, index / 2}; }
  // Tells whether the two make their parent, this one first.
  [[nodiscard]] bool is_partner_of(const PartialSum& right) const {
    return level == right.level && index % 2 == 0 && right.index == index + 1;
  }
  bool operator==(const PartialSum&) const = default;
};

// Adds up values of parts, or of subtrees, that come in the order of their parts. Keeps only the
// largest subtrees.
template <typename Value>
class PartSums {
 public:
  struct Item {
    PartialSum sum;
    Value value;
  };

  // `add(left, right)` adds right to left. The same operations with any partition of the parts.
  template <typename Add>
  void add(PartialSum sum, Value value, const Add& add) {
    while (!items_.empty() && items_.back().sum.is_partner_of(sum)) {
      Value left = std::move(items_.back().value);
      items_.pop_back();
      add(left, value);
      value = std::move(left);
      sum = sum.parent();
    }
    items_.push_back({sum, std::move(value)});
  }

  // Sum of all parts, once all have come. There must be one at least.
  template <typename Add>
  [[nodiscard]] Value total(const Add& add) && {
    while (items_.size() > 1) {
      Value right = std::move(items_.back().value);
      items_.pop_back();
      add(items_.back().value, right);
    }
    return std::move(items_.front().value);
  }

  [[nodiscard]] const std::vector<Item>& items() const { return items_; }
  [[nodiscard]] std::vector<Item> take() { return std::exchange(items_, {}); }

 private:
  std::vector<Item> items_;
};

// The largest subtrees that consecutive parts hold, in the order of their parts.
[[nodiscard]] inline std::vector<PartialSum> partial_sums(const PartRange& parts) {
  PartSums<int> sums;
  for (int part = parts.first; part < parts.end; ++part) sums.add({0, part}, 0, [](int&, int) {});
  std::vector<PartialSum> result;
  for (const auto& item : sums.items()) result.push_back(item.sum);
  return result;
}

}  // namespace kolo
