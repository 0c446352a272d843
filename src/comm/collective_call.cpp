#include "kolo/comm/collective_call.h"

#include <fmt/format.h>

namespace kolo {

std::string_view name_of(Collective collective) {
  constexpr std::string_view names[] = {
      "nothing",           "all-reduce",     "broadcast",  "all-gather",
      "uneven all-gather", "reduce-scatter", "all-to-all", "barrier",
      "allocate",          "split",          "task",       "join"};
  return names[static_cast<std::size_t>(collective)];
}

std::string CollectiveCall::describe() const {
  const auto what = name_of(collective);
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return fmt::format("{} ({}) of {} {}", what, name_of(static_cast<ReduceOp>(detail)), count,
                         name_of(type));
    case Collective::broadcast:
      return fmt::format("{} (from root {}) of {} {}", what, detail, count, name_of(type));
    case Collective::all_gather:
    case Collective::all_gather_uneven:
    case Collective::all_to_all:
      return fmt::format("{} of {} {}", what, count, name_of(type));
    case Collective::allocate:
      return fmt::format("{} of {} bytes", what, count);
    default:
      return std::string(what);
  }
}

}  // namespace kolo
