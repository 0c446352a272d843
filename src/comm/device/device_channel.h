#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kolo/comm/backend.h"
#include "kolo/comm/device.h"

namespace kolo {

// Transport of one group's collectives on devices' memory. Calls come one at a time and in the same
// order on every rank, each with a CollectiveCall::order, but those of a rank that has joined,
// whose buffers are the host's.
class DeviceChannel {
 public:
  virtual ~DeviceChannel() = default;

  // For people, with how often the host waits for the device: "NCCL 2.28.9 (the host waits:
  // never)".
  [[nodiscard]] virtual std::string description() const = 0;
  // Whether execute() only gives the device work, without waiting.
  [[nodiscard]] virtual bool hands_over(const CallHeader& call) const = 0;
  // Begins after order->ready, and sets order->done.
  virtual void execute(const CollectiveCall& call) = 0;
  // The others' collectives fail, as far as this rank can make them. Any thread.
  virtual void abort() noexcept {}
};

// Through pinned memory of the host, and among the ranks as `host` does it: always possible, and an
// all-reduce has the same bits as one of the host's. Collective.
[[nodiscard]] std::unique_ptr<DeviceChannel> make_staged_channel(std::shared_ptr<Backend> host,
                                                                 int device,
                                                                 const DeviceOptions& options,
                                                                 std::shared_ptr<void> stream);

// For a group of one rank: copies the input to the output, on the stream.
[[nodiscard]] std::unique_ptr<DeviceChannel> make_solo_channel(const DeviceOptions& options,
                                                               std::shared_ptr<void> stream);

// NCCL's own identity of a group, made on one of its ranks.
using NcclId = std::vector<std::uint8_t>;
inline constexpr std::size_t nccl_id_bytes = 128;

[[nodiscard]] NcclId make_nccl_id();
using MakeChannel = std::function<std::unique_ptr<DeviceChannel>()>;
// Calls that NCCL can't do go through the channel that `make_rest` makes for the first of them.
// Collective: `id` is the same on all ranks, and each rank has a device of its own.
[[nodiscard]] std::unique_ptr<DeviceChannel> make_nccl_channel(const Topology& topology, int device,
                                                               const NcclId& id,
                                                               const DeviceOptions& options,
                                                               std::shared_ptr<void> stream,
                                                               MakeChannel make_rest);

}  // namespace kolo
