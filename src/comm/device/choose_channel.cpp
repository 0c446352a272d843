#include "comm/device/choose_channel.h"

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"

namespace kolo {

namespace {

// The machine, or what NCCL is told to take for one.
std::string host_of_nccl() {
  const char* const told = std::getenv("NCCL_HOSTID");
  return told == nullptr ? host_name() : std::string(told);
}

// What a rank has, as it is sent.
struct DeviceFacts {
  std::uint64_t hardware = 0;  // equal for ranks that share a device
  std::int32_t device = 0;
  std::int32_t has_nccl = 0;
  std::int32_t mpi_takes_it = 0;  // the device's memory
  std::int32_t padding = 0;
};

DeviceFacts facts_of(const Backend& host, const DeviceRuntime& runtime, int device) {
  DeviceFacts facts;
  facts.device = device;
  facts.hardware = std::hash<std::string>{}(host_of_nccl() + "/" + runtime.hardware(device));
  facts.has_nccl = !nccl_version().empty() && runtime.name() == "cuda" ? 1 : 0;
  facts.mpi_takes_it = host.moves_memory_of(runtime) ? 1 : 0;
  return facts;
}

std::vector<DeviceFacts> exchange(Backend& host, const DeviceFacts& mine) {
  const auto bytes = narrow<std::int64_t>(sizeof(DeviceFacts));
  const auto size = host.topology().size;
  std::vector<DeviceFacts> all(static_cast<std::size_t>(size));
  host.execute(CollectiveCall::all_gather(
      ConstBuffer(&mine, bytes, DataType::uint8),
      Buffer(all.data(), checked_multiply<std::int64_t>(bytes, size), DataType::uint8)));
  return all;
}

// "ranks 0 and 2 (their device 0)" of the first two that share one; empty: nobody does.
std::string who_shares(const std::vector<DeviceFacts>& facts) {
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      if (facts[rank].hardware == facts[other].hardware)
        return fmt::format("ranks {} and {} (device {} of each)", other, rank,
                           facts[rank].device == facts[other].device
                               ? std::to_string(facts[rank].device)
                               : fmt::format("{} and {}", facts[other].device, facts[rank].device));
    }
  }
  return {};
}

// Why a channel can't be had; empty: nothing is known against it.
std::string objection_to_nccl(const std::vector<DeviceFacts>& facts) {
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    if (facts[rank].has_nccl == 0) return fmt::format("rank {}'s kolo was built without it", rank);
  }
  const auto shared = who_shares(facts);
  if (shared.empty()) return {};
  return fmt::format("{} share a device, which NCCL does not do", shared);
}

std::string objection_to_ipc(const Backend& host) {
  const Topology& topology = host.topology();
  if (topology.nodes > 1) return fmt::format("the ranks are on {} nodes", topology.nodes);
  if (!host.capabilities().shared_memory) return "the ranks share no memory of the host";
  if (topology.size > static_cast<int>(DeviceReduction::most_sources))
    return fmt::format("there are {} ranks, and it takes {} at most", topology.size,
                       DeviceReduction::most_sources);
  return {};
}

std::string objection_to_mpi(const std::vector<DeviceFacts>& facts) {
  if (facts.size() > DeviceReduction::most_sources)
    return fmt::format("there are {} ranks, and it takes {} at most", facts.size(),
                       DeviceReduction::most_sources);
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    if (facts[rank].mpi_takes_it == 0)
      return fmt::format("on rank {} there is no MPI that says that it is CUDA-aware", rank);
  }
  return {};
}

// Of what was asked for, by name.
void refuse(DeviceChannelKind kind, const std::string& objection) {
  if (objection.empty()) return;
  const std::string name = kind == DeviceChannelKind::nccl  ? "NCCL"
                           : kind == DeviceChannelKind::ipc ? "the device channel ipc"
                                                            : "the device channel mpi";
  throw InputError(fmt::format("comm: {} was asked for, but {}; use the channel auto or staged",
                               name, objection));
}

}  // namespace

ChosenChannel choose_channel(const std::shared_ptr<Backend>& host, int device,
                             DeviceSharing& sharing) {
  const auto& options = sharing.options();
  const auto wanted = options.channel;
  const bool is_free = wanted == DeviceChannelKind::automatic;
  const auto facts = exchange(*host, facts_of(*host, sharing.runtime(), device));
  const auto stream = sharing.stream(device);
  if (wanted == DeviceChannelKind::mpi) {
    refuse(wanted, objection_to_mpi(facts));
    return {make_mpi_channel(host, device, options, stream), ""};
  }
  auto staged = make_staged_channel(host, options, stream);
  std::string why;
  if (wanted == DeviceChannelKind::nccl || is_free) {
    const auto objection = objection_to_nccl(facts);
    if (!is_free) refuse(wanted, objection);
    if (objection.empty()) {
      auto id = host->topology().rank == 0 ? make_nccl_id() : NcclId(nccl_id_bytes);
      host->execute(CollectiveCall::broadcast(std::span(id), 0));
      return {make_nccl_channel(host->topology(), device, id, options, stream, std::move(staged)),
              ""};
    }
    why = fmt::format("not NCCL: {}", objection);
  }
  if (wanted == DeviceChannelKind::ipc || is_free) {
    auto objection = objection_to_ipc(*host);
    std::unique_ptr<SharedWindows> windows;
    if (objection.empty())
      windows = make_ipc_windows(*host, device, options, sharing.lent(), objection);
    if (windows) {
      return {
          make_ipc_channel(host, device, options, stream, std::move(windows), std::move(staged)),
          why};
    }
    if (!is_free) refuse(wanted, objection);
    why += fmt::format("; not each other's memory: {}", objection);
  }
  return {std::move(staged), why};
}

}  // namespace kolo
