#include "run/load_data.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/machine.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t alignment = 64;
  return checked_add(bytes, alignment - 1) / alignment * alignment;
}

std::size_t bytes_of(const std::vector<MemoryLoad>& loads) {
  std::size_t all = 0;
  for (const auto& load : loads) all = checked_add(all, aligned(load.bytes));
  return all;
}

std::string describe_room() {
  const auto left = available_memory();
  if (!left) return "how much memory is left the system doesn't say";
  return fmt::format("{} are left", format_bytes(static_cast<std::uint64_t>(*left)));
}

}  // namespace

// In one piece: whether there is room for a second one can't be told before the first is written.
void load_data(const Communicator& communicator, Datasets& datasets) {
  const auto loads = std::exchange(datasets.loads, {});
  if (loads.empty()) return;
  const auto bytes = bytes_of(loads);
  const auto& topology = communicator.topology();
  const auto shared = topology.size > 1 ? communicator.allocate_for_node(bytes) : nullptr;
  if (!shared) {
    if (topology.local_size > 1) {
      const auto& instead = loads.front().instead;
      datasets.warnings.push_back(fmt::format(
          "data: each of the {} ranks of a node keeps a copy of the data in memory, as they can't "
          "share {} ({}): take fewer or smaller files{}{}",
          topology.local_size, format_bytes(bytes), describe_room(), instead.empty() ? "" : ", or ",
          instead));
    }
    for (const auto& load : loads) load_alone(load);
    return;
  }
  std::size_t begin = 0;
  for (const auto& load : loads) {
    load.read({shared, shared.get() + begin}, topology.local_rank, topology.local_size);
    begin += aligned(load.bytes);
  }
  datasets.note_of_loads =
      fmt::format("{} of data in memory, once for the {} rank{} of a node", format_bytes(bytes),
                  topology.local_size, topology.local_size == 1 ? "" : "s");
}

}  // namespace kolo
