#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/device/device_channel.h"
#include "comm/device/device_sharing.h"
#include "comm/gather.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"

namespace kolo {

namespace {

// Name of the machine, or of the one that NCCL is told to take it for.
std::string host_of_nccl() {
  const char* const told = std::getenv("NCCL_HOSTID");
  return told == nullptr ? host_name() : std::string(told);
}

// Facts of a rank's device, as they are sent.
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

struct ChosenChannel {
  std::unique_ptr<DeviceChannel> channel;
  // Reason why a better channel was not taken: "not NCCL: ..."; empty: there is none, or this one
  // was asked for.
  std::string why;
};

// Chooses the channel of a group of ranks, of which this one works on `device`: by what they tell
// each other of their devices, and by the options, the same on all ranks. InputError on all where
// the wanted one is unavailable. Collective.
ChosenChannel choose_channel(const std::shared_ptr<Backend>& host, int device,
                             DeviceSharing& sharing) {
  const auto& options = sharing.options();
  const auto stream = sharing.stream(device);
  if (host->topology().size == 1) return {make_solo_channel(options, stream), ""};
  const auto make_staged = [host, device, options, stream] {
    return make_staged_channel(host, device, options, stream);
  };
  if (options.channel == DeviceChannelKind::staged) return {make_staged(), ""};
  const auto mine = facts_of(sharing.runtime(), device);
  const auto objection =
      objection_to_nccl(gather(host->topology().size, std::span(&mine, 1),
                               [&](const CollectiveCall& call) { host->execute(call); }));
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

// A back end that takes collectives on devices' memory too: the host's go to the one below, a
// device's to a channel, which their first one chooses and makes.
class DeviceBackend final : public Backend {
 public:
  DeviceBackend(std::shared_ptr<Backend> host, std::shared_ptr<DeviceSharing> sharing)
      : host_(std::move(host)), sharing_(std::move(sharing)) {}

  [[nodiscard]] const Topology& topology() const override { return host_->topology(); }
  [[nodiscard]] Capabilities capabilities() const override {
    auto capabilities = host_->capabilities();
    capabilities.device_transport = sharing_->transport();
    capabilities.hands_over_to_devices = hands_over(
        {.collective = Collective::all_reduce, .type = DataType::float32, .op = ReduceOp::average});
    return capabilities;
  }

  void execute(const CollectiveCall& call) override {
    if (call.memory == MemoryKind::host) return host_->execute(call);
    if (channel() == nullptr) make_channel(call);
    require_one_device(call);
    channel()->execute(call);
  }
  void agree(const CallHeader& call) override { host_->agree(call); }
  void begin_on_device(CollectiveCall& call) const override {
    const auto& runtime = sharing_->runtime();
    const void* const memory = call.output.count > 0 ? call.output.data : call.input.data;
    const bool has_memory = call.output.count > 0 || call.input.count > 0;
    const int device = has_memory ? runtime.device_of(memory) : own_device();
    if (call.output.count > 0 && call.input.count > 0) {
      const int other = runtime.device_of(call.input.data);
      if (other != device) {
        throw Error(
            fmt::format("comm: {}: the input is on {} device {}, the output on device {}; a "
                        "collective takes both on one",
                        name_of(call.collective), runtime.name(), other, device));
      }
    }
    call.order->device = device;
    call.order->ready = runtime.record(device, call.order->stream);
  }
  // The first call makes the channel, so it can't be known before whether that waits.
  void await_input(const CollectiveCall& call) const override {
    if (channel() != nullptr && !hands_over(call)) call.order->ready->wait();
  }
  // The first call makes the channel. Ranks wait for each other then, so it isn't for a thread that
  // must not wait.
  [[nodiscard]] bool hands_over(const CallHeader& call) const override {
    const auto* const present = channel();
    return present != nullptr && present->hands_over(call);
  }
  [[nodiscard]] bool follow(const CollectiveCall& call, std::function<void()> started,
                            std::function<void(bool)> finished) override {
    if (!call.order || !call.order->done || !hands_over(call)) return false;
    // Captured work happens later, if ever.
    if (sharing_->runtime().is_captured(call.order->stream)) return false;
    sharing_->poller().add(call.order->ready, call.order->done, std::move(started),
                           std::move(finished));
    return true;
  }
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override {
    return host_->allocate(call);
  }
  [[nodiscard]] std::shared_ptr<Backend> split(int color, int key) override {
    auto subset = host_->split(color, key);
    return subset ? std::make_shared<DeviceBackend>(std::move(subset), sharing_) : nullptr;
  }
  [[nodiscard]] std::unique_ptr<StatusExchange> status_exchange() override {
    return host_->status_exchange();
  }
  [[nodiscard]] std::shared_ptr<TransferDesk> transfers() override { return host_->transfers(); }
  [[nodiscard]] std::shared_ptr<TransferStaging> stage(CollectiveCall& call) const override {
    begin_on_device(call);
    return call.count > 0 ? std::make_shared<TransferStaging>(call, *sharing_) : nullptr;
  }
  void leave() noexcept override { host_->leave(); }
  void abort(int exit_code, std::string_view reason) noexcept override {
    if (auto* const present = channel()) present->abort();
    host_->abort(exit_code, reason);
  }
  [[nodiscard]] bool ends_processes() const override { return host_->ends_processes(); }
  [[nodiscard]] bool is_broken() const override { return host_->is_broken(); }

 private:
  [[nodiscard]] DeviceChannel* channel() const {
    const std::lock_guard lock(mutex_);
    return channel_.get();
  }
  [[nodiscard]] int own_device() const {
    const std::lock_guard lock(mutex_);
    return device_ < 0 ? sharing_->runtime().current_device() : device_;
  }
  // The ranks compare the call first: one that is in host memory is told, and nobody waits.
  void make_channel(const CollectiveCall& call) {
    host_->agree(call);
    const int device = call.order ? call.order->device : own_device();
    auto [made, why] = choose_channel(host_, device, *sharing_);
    sharing_->note_transport(
        fmt::format("{}{}{}", made->description(), why.empty() ? "" : "; ", why));
    const std::lock_guard lock(mutex_);
    channel_ = std::move(made);
    device_ = device;
  }
  void require_one_device(const CollectiveCall& call) const {
    if (!call.order || call.order->device == device_) return;
    throw Error(fmt::format(
        "comm: {}: the buffers are on {} device {}, but this communicator's first "
        "collective was on device {}; a rank keeps to one device in a communicator",
        name_of(call.collective), sharing_->runtime().name(), call.order->device, device_));
  }

  std::shared_ptr<Backend> host_;
  std::shared_ptr<DeviceSharing> sharing_;
  // Guards the next two, which other threads than the one that executes may ask for.
  mutable std::mutex mutex_;
  std::unique_ptr<DeviceChannel> channel_;
  int device_ = -1;  // of the channel
};

}  // namespace

void Backend::begin_on_device(CollectiveCall& call) const {
  throw Error(fmt::format("comm: {} takes the host's memory alone, of ranks on {}",
                          name_of(call.collective), capabilities().backend));
}

std::shared_ptr<TransferStaging> Backend::stage(CollectiveCall& call) const {
  begin_on_device(call);  // throws
  return nullptr;
}

std::shared_ptr<Backend> make_device_backend(std::shared_ptr<Backend> host,
                                             std::shared_ptr<DeviceSharing> sharing) {
  return std::make_shared<DeviceBackend>(std::move(host), std::move(sharing));
}

}  // namespace kolo
