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
};

DeviceFacts facts_of(const DeviceRuntime& runtime, int device) {
  DeviceFacts facts;
  facts.device = device;
  facts.hardware = std::hash<std::string>{}(host_of_nccl() + "/" + runtime.hardware(device));
  facts.has_nccl = !nccl_version().empty() && runtime.name() == "cuda" ? 1 : 0;
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

// Reason why NCCL is unavailable; empty if it is usable.
std::string objection_to_nccl(const std::vector<DeviceFacts>& facts) {
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    if (facts[rank].has_nccl == 0) return fmt::format("rank {}'s kolo was built without it", rank);
  }
  const auto shared = who_shares(facts);
  if (shared.empty()) return {};
  return fmt::format("{} share a device, which NCCL does not do", shared);
}

}  // namespace

ChosenChannel choose_channel(const std::shared_ptr<Backend>& host, int device,
                             DeviceSharing& sharing) {
  const auto& options = sharing.options();
  const auto stream = sharing.stream(device);
  if (host->topology().size == 1) return {make_solo_channel(options, stream), ""};
  const auto make_staged = [host, device, options, stream] {
    return make_staged_channel(host, device, options, stream);
  };
  if (options.channel == DeviceChannelKind::staged) return {make_staged(), ""};
  const auto objection = objection_to_nccl(exchange(*host, facts_of(sharing.runtime(), device)));
  if (objection.empty()) {
    auto id = host->topology().rank == 0 ? make_nccl_id() : NcclId(nccl_id_bytes);
    host->execute(CollectiveCall::broadcast(std::span(id), 0));
    return {make_nccl_channel(host->topology(), device, id, options, stream, make_staged), ""};
  }
  if (options.channel == DeviceChannelKind::nccl) {
    throw InputError(
        fmt::format("comm: NCCL was asked for, but {}; use the channel auto or staged", objection));
  }
  return {make_staged(), fmt::format("not NCCL: {}", objection)};
}

}  // namespace kolo
