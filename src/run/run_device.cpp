#include "run/run_device.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <torch/version.h>

#include "base/openmp.h"
#include "config/settle.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/comm/device.h"
#include "kolo/config/derived_settings.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/initialize.h"
#include "run/begin_process.h"

namespace kolo {

LibTorchFacts libtorch_facts() {
  return {TORCH_VERSION, at::get_num_threads(), at::hasMKL()};
}

namespace {

// Tries what LibTorch's thread pool and OpenBLAS need later: where the system refuses them threads
// or memory for buffers, they wait for ever instead of failing.
void require_room_for_threads(int threads) {
  {
    std::promise<void> end;
    std::vector<std::jthread> started;
    const auto ended = end.get_future().share();
    try {
      for (int i = 1; i < threads; ++i) started.emplace_back([ended] { ended.wait(); });
    } catch (...) {
      end.set_value();
      throw;
    }
    end.set_value();
  }
  constexpr std::size_t megabyte = std::size_t{1} << 20;
  const std::size_t bytes = (256 + 128 * static_cast<std::size_t>(threads)) * megabyte;
  void* const room =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    throw Error(fmt::format(
        "this process may not have {} MiB more of address space, which computing with {} needs: "
        "raise its limit (ulimit -v), or use fewer threads (device.intra_threads)",
        bytes / megabyte, counted(threads, "thread")));
  }
  ::munmap(room, bytes);
}

}  // namespace

void set_threads(const DeviceConfig& device, const LaunchEnvironment& environment) {
  const int cores = detect_cpu_limits().cores();
  const int share = cores / environment.local_size.value_or(environment.size);
  if (device.intra_threads > 0)
    parallel::set_compute_threads(std::min(device.intra_threads, cores));
  else if (openmp_threads_wanted())
    parallel::set_compute_threads(at::get_num_threads());
  else
    parallel::set_compute_threads(std::min(environment.cpus.value_or(share), cores));
  require_room_for_threads(at::get_num_threads());
  // OpenBLAS would go by its environment, so that the same run, started in another way, would get
  // other last digits.
  set_blas_threads(at::get_num_threads());
  // LibTorch accepts it only once.
  if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
}

bool wants_gpu(const DeviceConfig& device) {
  return device.kind == DeviceKind::cuda ||
         (device.kind == DeviceKind::automatic && cuda_devices().devices > 0);
}

std::string describe_machine(const DeviceConfig& device, int nodes) {
  const auto in_brackets = [](const std::string& name) {
    return name.empty() ? "" : fmt::format(" ({})", name);
  };
  auto text = counted(detect_cpu_limits().online, "CPU") + in_brackets(processor_name());
  if (const int gpus = wants_gpu(device) ? cuda_devices().devices : 0; gpus > 0)
    text += ", " + counted(gpus, "GPU") + in_brackets(device_name(c10::Device(c10::kCUDA, 0)));
  return nodes > 1 ? fmt::format("{} nodes of {}", nodes, text) : text;
}

void require_device(const RunConfig& config) {
  if (const auto need = need_of_gpu(config.data); !need.empty() && !wants_gpu(config.device)) {
    refuse_setting(
        config, "device.kind",
        fmt::format("there is no GPU to compute on, or device.kind is cpu, but {}", need));
  }
  if (config.device.kind != DeviceKind::cuda) return;
  const auto count = cuda_devices();
  if (count.devices > 0) return;
  refuse_setting(config, "device.kind",
                 fmt::format("cuda, but there is no GPU that kolo can use: {}; kolo doctor tells "
                             "more, and device.kind=cpu does without",
                             count.problem));
}

torch::Device start_device(const DeviceConfig& device, const Communicator& communicator) {
  if (device.kind == DeviceKind::cpu) return torch::kCPU;
  const auto taken = take_device(communicator, device.shared);
  if (!taken.is_cuda()) return taken;
  log_nccl_start();
  auto& context = at::globalContext();
  context.setAllowTF32CuDNN(device.tf32);
  context.setAllowTF32CuBLAS(device.tf32);
  // cuBLAS may otherwise add up in another order, and LibTorch up to 2.9 refuses its products.
  if (device.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  context.setBenchmarkCuDNN(device.cudnn_benchmark && !device.deterministic);
  context.setDeterministicCuDNN(device.deterministic);
  context.setDeterministicAlgorithms(device.deterministic, /*warn_only=*/false);
  if (device.graphs) {  // they can't be captured on the default stream of this thread
    const c10::impl::VirtualGuardImpl streams(taken.type());
    streams.exchangeStream(streams.getStreamFromGlobalPool(taken));
  }
  return taken;
}

void move_network(torch::nn::Module& network, const RunConfig& config,
                  const torch::Device& device) {
  if (device.is_cpu()) return;
  const bool is_channels_last =
      config.device.channels_last && config.training.precision != Precision::fp32;
  const torch::NoGradGuard no_gradient;
  in_phase("the network", device, [&] {
    network.to(device);
    for (auto& parameter : network.parameters()) {
      if (parameter.dim() != 4 && parameter.dim() != 5) continue;
      // The order in memory by which convolutions compute.
      const auto order = !is_channels_last      ? torch::MemoryFormat::Contiguous
                         : parameter.dim() == 4 ? torch::MemoryFormat::ChannelsLast
                                                : torch::MemoryFormat::ChannelsLast3d;
      parameter.set_data(parameter.detach().contiguous(order));
    }
  });
}

}  // namespace kolo
