#include "divisible.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo::parallel {

void require_divisible(const Communicator& group, std::string_view layer, std::string_view what,
                       std::int64_t count, std::int64_t blocks) {
  const std::int64_t ranks = group.size();
  if (blocks < 1)
    throw InputError(fmt::format("parallel: {}: {} blocks, expected at least 1", layer, blocks));
  const auto multiple = checked_multiply(blocks, ranks);
  if (count > 0 && count % multiple == 0) return;
  const auto in_blocks = blocks == 1 ? "" : fmt::format(" in {} blocks", blocks);
  std::vector<std::int64_t> fitting;
  if (count > 0 && count % blocks == 0) {
    for (std::int64_t fewer = 1; fewer < ranks; ++fewer)
      if (count / blocks % fewer == 0) fitting.push_back(fewer);
  }
  const auto ranks_that_fit =
      fitting.empty() ? "" : fmt::format(", or take {} ranks", fmt::join(fitting, " or "));
  throw InputError(
      fmt::format("parallel: {}: {} {}{} can't be cut among {} ranks; make them a multiple of {}{}",
                  layer, count, what, in_blocks, ranks, multiple, ranks_that_fit));
}

}  // namespace kolo::parallel
