// How the rank tests of communicators run.
#include "support/gpu.h"
#include "support/rank_test.h"
#include "support/simulated_device/runtime.h"

namespace kolo::testing {

namespace {

// Adds checked communicators over the last setting. Some tests make them themselves, or look at the
// words of plain ones.
std::vector<RankSetting> with_checks(std::string_view suite, std::vector<RankSetting> settings) {
  if (suite != "Join" && suite != "Mismatch" && suite != "PlainMismatch" && suite != "Averages")
    settings.push_back(checked(settings.back()));
  return settings;
}

DeviceOptions devices(DeviceChannelKind channel = DeviceChannelKind::automatic) {
  return {.channel = channel, .staging_bytes = 1 << 16, .runtime = simulated::runtime_of_tests()};
}

// The same setting on a device's memory, for tests that compute. Whether communicators are checked
// makes no difference to values there (device_test.cpp has checked ones).
RankSetting on_device(const RankSetting& plain) {
  return {plain.name + ", on a device", [run = plain.run](const auto& body) {
            run([&](const Communicator& communicator) {
              body(simulated::through_device(communicator, simulated::runtime_of_tests()));
            });
          }};
}

bool has_values(std::string_view suite) {
  return suite == "Collectives" || suite == "Exchanges" || suite == "Averages";
}

}  // namespace

// Buffers read in place; everything through staging; through staging areas so small that every
// buffer takes many chunks.
std::vector<RankSetting> thread_settings(std::string_view suite) {
  auto settings = with_checks(
      suite, {alone(), on_threads(1, "directly"), on_threads(2, "directly"),
              on_threads(5, "directly"), on_threads(3, "staged", {.direct = false}),
              on_threads(4, "through tiny staging areas",
                         {.staging_bytes = 4096, .whole_limit_bytes = 64, .direct = false})});
  if (has_values(suite)) {
    settings.push_back(on_device(on_threads(1, "", {.devices = devices()})));
    settings.push_back(on_device(on_threads(3, "", {.devices = devices()})));
  }
  return settings;
}

std::vector<RankSetting> process_settings(std::string_view suite) {
  auto settings = with_checks(
      suite,
      {on_processes("through tiny staging areas", {.staging_bytes = 4096, .whole_limit_bytes = 64}),
       on_processes("by default")});
  if (has_values(suite))
    settings.push_back(on_device(on_processes("with a device", {.devices = devices()})));
  return settings;
}

// Shared memory, MPI alone in small pieces, and pretended nodes: as many as ranks, two of uneven
// size, and two of two. (What goes on inside a node is the same as with threads and processes.)
std::vector<RankSetting> mpi_settings(std::string_view suite, int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  std::vector<RankSetting> settings = {
      on_mpi("by default"),
      on_mpi("by MPI alone in small pieces",
             {.shared_memory = SharedMemory::off, .largest_count = 999}),
      on_mpi("on as many nodes", {.ranks_on_nodes = std::vector<int>(all, 1)})};
  if (ranks == 4) {
    settings.push_back(on_mpi("on two nodes of two", {.ranks_on_nodes = {2, 2}}));
    settings.push_back(
        on_mpi("on two uneven nodes with tiny staging areas", {.largest_count = 100,
                                                               .staging_bytes = 4096,
                                                               .whole_limit_bytes = 64,
                                                               .ranks_on_nodes = {3, 1}}));
    settings.push_back(on_mpi("on two uneven nodes", {.ranks_on_nodes = {3, 1}}));
  }
  settings = with_checks(suite, std::move(settings));
  if (has_values(suite)) {
    // On a GPU KOLO_DEVICE_CHANNEL chooses the channel.
    const auto channel = is_gpu_wanted() ? DeviceChannelKind::automatic : DeviceChannelKind::staged;
    settings.push_back(on_device(on_mpi("on devices", {.devices = devices(channel)})));
  }
  return settings;
}

}  // namespace kolo::testing
