#include "kolo/layout/virtual_ranks.h"

#include <cstdint>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

PartRange parts_of_rank(int parts, int ranks, int rank) {
  if (ranks < 1 || parts < ranks || rank < 0 || rank >= ranks) {
    throw Error(
        fmt::format("layout: the parts of rank {} of {}, of {} virtual ranks; expected 0 <= "
                    "rank < ranks <= virtual ranks",
                    rank, ranks, parts));
  }
  const auto begin_of = [&](std::int64_t of) {
    return static_cast<int>(std::int64_t{parts} * of / ranks);
  };
  return {begin_of(rank), begin_of(std::int64_t{rank} + 1)};
}

std::vector<PartialSum> partial_sums(const PartRange& parts) {
  struct Nothing {};
  const auto add = [](Nothing&, const Nothing&) {};
  PartSums<Nothing> sums;
  for (int part = parts.first; part < parts.end; ++part) sums.add({0, part}, {}, add);
  std::vector<PartialSum> result;
  for (const auto& item : sums.items()) result.push_back(item.sum);
  return result;
}

}  // namespace kolo
