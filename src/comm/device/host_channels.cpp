#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "comm/device/device_channel.h"
#include "comm/device/device_sharing.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// One rank's collectives: results of reductions, gathers and exchanges are its own values.
class SoloChannel final : public DeviceChannel {
 public:
  SoloChannel(std::shared_ptr<const DeviceRuntime> runtime, std::shared_ptr<void> stream)
      : runtime_(std::move(runtime)), stream_(std::move(stream)) {}

  [[nodiscard]] std::string description() const override {
    return "nothing: one rank (the host waits: never)";
  }
  [[nodiscard]] bool hands_over(const CallHeader& /*call*/) const override { return true; }

  void execute(const CollectiveCall& call) override {
    const auto bytes = call.output.bytes();
    const bool is_to_copy = bytes > 0 && call.input.data != call.output.data;
    if (!call.order) {
      if (is_to_copy) std::memcpy(call.output.data, call.input.data, bytes);
      return;
    }
    const int device = call.order->device;
    call.order->ready->hold_back(stream_.get());
    if (is_to_copy) runtime_->copy(device, call.output.data, call.input.data, bytes, stream_.get());
    call.order->done = runtime_->record(device, stream_.get());
  }

 private:
  std::shared_ptr<const DeviceRuntime> runtime_;
  std::shared_ptr<void> stream_;
};

}  // namespace

std::unique_ptr<DeviceChannel> make_solo_channel(const DeviceOptions& options,
                                                 std::shared_ptr<void> stream) {
  return std::make_unique<SoloChannel>(options.runtime, std::move(stream));
}

namespace {

class StagedChannel final : public DeviceChannel {
 public:
  StagedChannel(std::shared_ptr<Backend> host, int device, const DeviceOptions& options,
                std::shared_ptr<void> stream)
      : host_(std::move(host)),
        runtime_(options.runtime),
        device_(device),
        stream_(std::move(stream)),
        window_bytes_(std::max<std::size_t>(options.staging_bytes / 64 * 64, 64)) {
    const auto bytes = narrow<std::int64_t>(window_bytes_);
    for (auto& window : windows_) {
      window = host_->allocate(CollectiveCall::of(Collective::allocate, bytes)).front();
      try {
        window = runtime_->pin(device_, window, window_bytes_);
      } catch (const Error&) {  // Copies then take longer: the driver has to pin them itself.
        is_pinned_ = false;
      }
    }
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format(
        "{} of the host, then {} (the host waits: once a call, and every {} KiB, once more where "
        "input and output are apart)",
        is_pinned_ ? "pinned memory" : "memory (which can't be pinned)",
        host_->capabilities().transport, window_bytes_ / 1024);
  }
  [[nodiscard]] bool hands_over(const CallHeader& /*call*/) const override { return false; }
  void execute(const CollectiveCall& call) override {
    if (call.order) call.order->ready->hold_back(stream_.get());
    try {
      if (traits_of(call.collective).buffers == BufferShape::in_place)
        execute_in_pieces(call);
      else
        execute_whole(call);
    } catch (...) {
      if (const auto left = here(call)) left->wait();  // the buffers may go now
      throw;
    }
    if (call.order) call.order->done = here(call);
  }

 private:
  // Goes piece by piece through two windows by turns: the next piece comes down while the ranks
  // work on this one. Copies into a window and out of it keep the stream's order. (The host's
  // collectives only compare CallHeader::memory.)
  void execute_in_pieces(const CollectiveCall& call) {
    const auto size = static_cast<std::int64_t>(size_of(call.type));
    const std::int64_t most = static_cast<std::int64_t>(window_bytes_) / size;
    const auto* const from = static_cast<const std::byte*>(call.input.data);
    auto* const to = static_cast<std::byte*>(call.output.data);
    std::array<std::shared_ptr<const DeviceEvent>, 2> arrived;
    const auto length = [&](std::int64_t begin) { return std::min(most, call.count - begin); };
    const auto bring_down = [&](std::int64_t begin) {
      if (begin >= call.count) return;
      const auto window = static_cast<std::size_t>(begin / most % 2);
      copy(call, windows_[window].get(), from + begin * size,
           static_cast<std::size_t>(length(begin) * size));
      arrived[window] = here(call);
    };
    bring_down(0);
    for (std::int64_t begin = 0; begin < call.count; begin += most) {
      const auto window = static_cast<std::size_t>(begin / most % 2);
      bring_down(begin + most);
      if (arrived[window]) arrived[window]->wait();
      CollectiveCall piece = call;
      piece.count = length(begin);
      piece.output = Buffer(windows_[window].get(), piece.count, call.type);
      piece.input = piece.output;
      host_->execute(piece);
      copy(call, to + begin * size, windows_[window].get(),
           static_cast<std::size_t>(piece.count * size));
    }
    if (call.count > 0) return;
    host_->execute(call);  // ranks meet in it all the same
  }
  void execute_whole(const CollectiveCall& call) {
    const auto input = pinned_.take(*runtime_, device_, call.input.bytes()),
               output = pinned_.take(*runtime_, device_, call.output.bytes());
    CollectiveCall staged = call;
    staged.input = ConstBuffer(input.get(), call.input.count, call.input.type);
    staged.output = Buffer(output.get(), call.output.count, call.output.type);
    copy(call, input.get(), call.input.data, call.input.bytes());
    if (const auto arrived = here(call)) arrived->wait();
    host_->execute(staged);
    copy(call, call.output.data, staged.output.data, call.output.bytes());
    // The next call may take the memory at once.
    if (const auto left = here(call)) left->wait();
  }
  // Copies between a call's buffer and memory of the host's. A rank that has joined has its buffers
  // there.
  void copy(const CollectiveCall& call, void* to, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    if (call.order)
      runtime_->copy(call.order->device, to, from, bytes, stream_.get());
    else
      std::memcpy(to, from, bytes);
  }
  [[nodiscard]] std::shared_ptr<const DeviceEvent> here(const CollectiveCall& call) const {
    return call.order ? runtime_->record(call.order->device, stream_.get()) : nullptr;
  }

  std::shared_ptr<Backend> host_;
  std::shared_ptr<const DeviceRuntime> runtime_;
  int device_;
  std::shared_ptr<void> stream_;
  std::size_t window_bytes_;
  bool is_pinned_ = true;
  // In memory that the ranks of a node reduce in place, without a copy.
  std::array<std::shared_ptr<std::byte>, 2> windows_;
  PinnedMemories pinned_;
};

}  // namespace

std::unique_ptr<DeviceChannel> make_staged_channel(std::shared_ptr<Backend> host, int device,
                                                   const DeviceOptions& options,
                                                   std::shared_ptr<void> stream) {
  return std::make_unique<StagedChannel>(std::move(host), device, options, std::move(stream));
}

}  // namespace kolo
