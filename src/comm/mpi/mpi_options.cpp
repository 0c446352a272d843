#include "comm/mpi/mpi_options.h"

#include <array>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/print_line.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

// What decides collectives, as plain numbers.
struct Settings {
  std::int32_t checked = 0, watch = 0, shared_memory = 0, nodes = 0;
  double warning = 0, limit = 0;
  std::int64_t largest_count = 0, staging_bytes = 0, whole_limit_bytes = 0;
};

Settings settings_of(const MpiOptions& options) {
  return {.checked = options.checked,
          .watch = options.watch.enabled,
          .shared_memory = static_cast<std::int32_t>(options.shared_memory),
          .nodes = narrow<std::int32_t>(options.ranks_on_nodes.size()),
          .warning = options.watch.warning.count(),
          .limit = options.watch.limit.count(),
          .largest_count = options.largest_count,
          .staging_bytes = narrow<std::int64_t>(options.staging_bytes),
          .whole_limit_bytes = narrow<std::int64_t>(options.whole_limit_bytes)};
}

void put_into(MpiOptions& options, const Settings& settings) {
  options.checked = settings.checked != 0;
  options.watch.enabled = settings.watch != 0;
  options.watch.warning = std::chrono::duration<double>(settings.warning);
  options.watch.limit = std::chrono::duration<double>(settings.limit);
  options.shared_memory = static_cast<SharedMemory>(settings.shared_memory);
  options.largest_count = settings.largest_count;
  options.staging_bytes = static_cast<std::size_t>(settings.staging_bytes);
  options.whole_limit_bytes = static_cast<std::size_t>(settings.whole_limit_bytes);
}

// A setting in words: its name and value.
struct Named {
  const char* name;
  std::string value;
};

std::array<Named, 8> in_words(const MpiOptions& options) {
  const auto on_or_off = [](bool value) { return std::string(value ? "on" : "off"); };
  constexpr std::array shared_memory = {"auto", "on", "off"};
  return {{{"KOLO_CHECKED (MpiOptions::checked)", on_or_off(options.checked)},
           {"KOLO_WATCH (MpiOptions::watch)", on_or_off(options.watch.enabled)},
           {"KOLO_WATCH_WARNING", fmt::format("{} s", options.watch.warning.count())},
           {"KOLO_WATCH_LIMIT", fmt::format("{} s", options.watch.limit.count())},
           {"MpiOptions::shared_memory",
            shared_memory.at(static_cast<std::size_t>(options.shared_memory))},
           {"MpiOptions::ranks_on_nodes", fmt::format("{}", options.ranks_on_nodes)},
           {"MpiOptions::largest_count", fmt::format("{}", options.largest_count)},
           {"MpiOptions::staging_bytes and whole_limit_bytes",
            fmt::format("{} and {}", options.staging_bytes, options.whole_limit_bytes)}}};
}

// The lowest rank in which a setting differs says so.
void say_what_differs(const MpiGroup& world, const MpiOptions& own, const MpiOptions& of_rank_0) {
  const auto mine = in_words(own), counting = in_words(of_rank_0);
  std::array<int, std::tuple_size_v<decltype(in_words(own))>> first{};
  for (std::size_t i = 0; i < first.size(); ++i)
    first[i] = mine[i].value == counting[i].value ? std::numeric_limits<int>::max() : world.rank();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, first.data(), narrow<int>(first.size()), MPI_INT, MPI_MIN,
                          world.get()),
            "MPI_Allreduce");
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] != world.rank()) continue;
    print_line(
        fmt::format("comm: {} is {} on rank {} and {} on rank 0; rank 0's counts for all ranks",
                    mine[i].name, mine[i].value, world.rank(), counting[i].value));
  }
}

}  // namespace

MpiOptions with_options_of_rank_0(const MpiGroup& world, const MpiOptions& own) {
  MpiOptions result = own;
  Settings settings = settings_of(own);
  check_mpi(MPI_Bcast(&settings, sizeof(settings), MPI_BYTE, 0, world.get()), "MPI_Bcast");
  put_into(result, settings);
  result.ranks_on_nodes.resize(static_cast<std::size_t>(settings.nodes));
  check_mpi(MPI_Bcast(result.ranks_on_nodes.data(), settings.nodes, MPI_INT, 0, world.get()),
            "MPI_Bcast");
  say_what_differs(world, own, result);
  return result;
}

}  // namespace kolo
