#include "kolo/parallel/initialize.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include "base/fingerprint.h"
#include "base/openmp.h"
#include "comm/messages.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/random.h"
#include "kolo/comm/processes.h"
#include "parallel/tensors/tensors.h"

namespace kolo {

namespace {

constexpr std::uint32_t rank_stream = 0x72616e6b;  // "rank", apart from other uses of one seed

// Ranks of this node that share their CPUs with this one, itself included. A launcher that binds
// gives each its own; without binding all have all.
int ranks_on_these_cpus(const Communicator& communicator) {
  const auto mine =
      static_cast<std::int64_t>(fingerprint_of(fmt::format("{}", fmt::join(allowed_cpus(), " "))));
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(all), {.name = "CPUs of the ranks"});
  const Topology& topology = communicator.topology();
  int ranks = 0;
  for (int rank = 0; rank < topology.size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (topology.node_of_rank[index] == topology.node && all[index] == mine) ++ranks;
  }
  return ranks;
}

bool are_devices_shared() {
  const char* const value = std::getenv("KOLO_SHARE_DEVICES");
  return value != nullptr && std::string_view(value) == "1";
}

// Error on all ranks, since all learn what each has.
void require_own_devices(const Communicator& communicator, int device_index, bool may_share) {
  std::int64_t own = 0;
  if (device_index >= 0)
    own = static_cast<std::int64_t>(fingerprint_of(cuda_runtime()->hardware(device_index)));
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&own, 1), std::span(all), {.name = "devices of the ranks"});
  const auto problem = parallel::device_problem(communicator.topology(), all, may_share);
  if (!problem.empty()) throw InputError(problem);
}

}  // namespace

std::string parallel::device_problem(const Topology& topology,
                                     std::span<const std::int64_t> devices, bool may_share) {
  const auto none = std::ranges::find(devices, 0);
  const auto one = std::ranges::find_if(devices, [](auto each) { return each != 0; });
  if (none != devices.end() && one != devices.end()) {
    return fmt::format(
        "parallel: rank {} has no GPU that kolo can use, and rank {} has one; all ranks compute on "
        "the same kind of device: use nodes that are alike, or device.kind=cpu",
        none - devices.begin(), one - devices.begin());
  }
  for (std::size_t rank = 0; !may_share && rank < devices.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      if (devices[rank] == 0 || devices[rank] != devices[other] ||
          topology.node_of_rank[rank] != topology.node_of_rank[other])
        continue;
      return fmt::format(
          "parallel: ranks {} and {} have the same GPU: there are more ranks on their node than "
          "GPUs that they see; start one rank per GPU, or let ranks share one, which is slower: "
          "device.shared=true, or KOLO_SHARE_DEVICES=1 in the environment",
          other, rank);
    }
  }
  return {};
}

Communicator initialize(const MpiOptions& options) {
  return job_communicator(options);
}

void parallel::set_compute_threads(int threads) {
  promise_threads();
  torch::set_num_threads(std::clamp(threads, 1, openmp_thread_limit()));
}

torch::Device pin_device(const Communicator& communicator) {
  keep_freed_memory_of_steps();
  const bool is_told = openmp_threads_wanted().has_value();
  const int ranks = ranks_on_these_cpus(communicator);
  if (ranks > 1 && communicator.topology().local_rank == 0 && !openmp_cpus().empty())
    print_line(
        "warning: parallel: OpenMP binds the threads of several ranks to the same CPUs "
        "(OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY): they wait for each other while others "
        "idle; set OMP_PROC_BIND=false, or have the launcher give each rank CPUs of its own");
  parallel::set_compute_threads(is_told ? torch::get_num_threads()
                                        : detect_cpu_limits().cores() / ranks);
  return take_device(communicator, are_devices_shared());
}

DeviceCount cuda_devices() {
  const auto runtime = cuda_runtime();
  if (!runtime) return {0, "kolo was built without CUDA (KOLO_CUDA)"};
  auto count = runtime->count();
  if (count.devices > 0 && !torch::cuda::is_available())
    return {0, "this LibTorch has no CUDA, or one for another driver"};
  return count;
}

torch::Device take_device(const Communicator& communicator, bool may_share) {
  if (!cuda_runtime()) return torch::kCPU;
  const auto devices = cuda_devices().devices;
  const int device_index = devices == 0 ? -1 : communicator.topology().local_rank % devices;
  require_own_devices(communicator, device_index, may_share);
  if (device_index < 0) return torch::kCPU;
  const torch::Device device(torch::kCUDA, static_cast<torch::DeviceIndex>(device_index));
  c10::impl::VirtualGuardImpl(torch::kCUDA).setDevice(device);
  return device;
}

std::uint64_t seed_ranks(const Communicator& communicator, std::uint64_t seed) {
  const auto rank = static_cast<std::uint32_t>(communicator.rank());
  const std::uint64_t own = rank == 0 ? seed : derive_seed(seed, rank_stream, rank);
  torch::manual_seed(own);
  return own;
}

}  // namespace kolo
