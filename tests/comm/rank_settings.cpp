// How the rank tests of communicators run.
#include "support/gpu.h"
#include "support/rank_test.h"
#include "support/simulated_device/runtime.h"

namespace kolo::testing {

namespace {

// Tests of checked communicators make them themselves; all others run with plain and with checked
// ones, but what is said in the words of plain ones.
std::vector<RankSetting> with_checks(std::string_view suite, std::vector<RankSetting> settings) {
  if (suite == "Join" || suite == "Mismatch" || suite == "PlainMismatch") return settings;
  for (std::size_t i = 0, plain = settings.size(); i < plain; ++i)
    settings.push_back(checked(settings[i]));
  return settings;
}

}  // namespace

DeviceOptions devices(DeviceChannelKind channel = DeviceChannelKind::automatic) {
  return {.channel = channel, .staging_bytes = 1 << 16, .runtime = simulated::runtime_of_tests()};
}

// Of what computes: the same on a device's memory. Whether communicators are checked makes no
// difference to values there (device_test.cpp has checked ones).
RankSetting on_device(const RankSetting& plain) {
  return {plain.name + ", on a device", [run = plain.run](const auto& body) {
            run([&](const Communicator& communicator) {
              body(simulated::through_device(communicator, simulated::runtime_of_tests()));
            });
          }};
}

// The channels to be tested under MPI. On a GPU KOLO_DEVICE_CHANNEL chooses, one at a time.
std::vector<DeviceChannelKind> mpi_channels() {
  return {is_gpu_wanted() ? DeviceChannelKind::automatic : DeviceChannelKind::staged};
}

bool has_values(std::string_view suite) {
  return suite == "Collectives" || suite == "Exchanges" || suite == "Averages";
}

// Buffers read in place; everything through staging; through staging areas so small that every
// buffer takes many chunks.
std::vector<RankSetting> thread_settings(std::string_view suite) {
  std::vector<RankSetting> settings = {alone()};
  for (const int ranks : {1, 2, 3, 5}) {
    settings.push_back(on_threads(ranks, "directly"));
    settings.push_back(on_threads(ranks, "staged", {.direct = false}));
    settings.push_back(
        on_threads(ranks, "through tiny staging areas",
                   {.staging_bytes = 4096, .whole_limit_bytes = 64, .direct = false}));
  }
  settings = with_checks(suite, std::move(settings));
  if (has_values(suite)) {
    settings.push_back(on_device(on_threads(1, "", {.devices = devices()})));
    settings.push_back(on_device(on_threads(3, "", {.devices = devices()})));
  }
  return settings;
}

std::vector<RankSetting> process_settings(std::string_view suite) {
  auto settings = with_checks(
      suite,
      {on_processes("by default"), on_processes("through tiny staging areas",
                                                {.staging_bytes = 4096, .whole_limit_bytes = 64})});
  if (has_values(suite))
    settings.push_back(on_device(on_processes("with a device", {.devices = devices()})));
  return settings;
}

// Shared memory with large and small areas, MPI alone in whole and in small pieces, and pretended
// nodes: two of uneven size, and as many as ranks.
std::vector<RankSetting> mpi_settings(std::string_view suite, int ranks) {
  std::vector<RankSetting> settings = {
      on_mpi("by default"),
      on_mpi("through tiny staging areas", {.staging_bytes = 4096, .whole_limit_bytes = 64}),
      on_mpi("by MPI alone", {.shared_memory = SharedMemory::off}),
      on_mpi("by MPI alone in small pieces",
             {.shared_memory = SharedMemory::off, .largest_count = 999}),
  };
  if (ranks > 1) {
    settings.push_back(on_mpi("on two uneven nodes", {.ranks_on_nodes = {ranks - 1, 1}}));
    settings.push_back(
        on_mpi("on two uneven nodes with tiny staging areas", {.largest_count = 100,
                                                               .staging_bytes = 4096,
                                                               .whole_limit_bytes = 64,
                                                               .ranks_on_nodes = {ranks - 1, 1}}));
    settings.push_back(on_mpi("on as many nodes", {.ranks_on_nodes = std::vector<int>(
                                                       static_cast<std::size_t>(ranks), 1)}));
  }
  if (ranks == 4) settings.push_back(on_mpi("on two nodes of two", {.ranks_on_nodes = {2, 2}}));
  settings = with_checks(suite, std::move(settings));
  if ((ranks > 1 || is_gpu_wanted()) && has_values(suite)) {
    for (const auto channel : mpi_channels()) {
      settings.push_back(
          on_device(on_mpi("by " + std::string(name_of(channel)), {.devices = devices(channel)})));
    }
  }
  return settings;
}

}  // namespace kolo::testing
