#include <algorithm>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/device/device_channel.h"
#include "comm/device/shared_windows.h"
#include "comm/negotiation/call_comparison.h"
#include "comm/shared_memory/reduce_kernels.h"

// Each rank puts a piece of its values into a window, the ranks' hosts meet, and every device takes
// what it needs out of all windows, in the order of ranks. A window has two halves, used by turns.
// A host comes to a meeting when its device has filled its half, and so has taken all that it needs
// of the piece before: whoever fills that piece's half again, after the meeting, disturbs nobody.
namespace kolo {

namespace {

class IpcChannel final : public DeviceChannel {
 public:
  IpcChannel(std::shared_ptr<Backend> host, int device, const DeviceOptions& options,
             std::shared_ptr<void> stream, std::unique_ptr<SharedWindows> windows,
             std::unique_ptr<DeviceChannel> rest)
      : host_(std::move(host)),
        device_(device),
        runtime_(options.runtime),
        stream_(std::move(stream)),
        half_bytes_(windows->bytes() / 2),
        rest_(std::move(rest)),
        windows_(std::move(windows)) {}
  IpcChannel(const IpcChannel&) = delete;
  IpcChannel& operator=(const IpcChannel&) = delete;
  ~IpcChannel() override;

  [[nodiscard]] std::string description() const override {
    return "memory of the devices that all ranks of the node reach (IPC)";
  }
  [[nodiscard]] std::string host_waits() const override {
    return fmt::format("once a call, and every {} KiB", half_bytes_ / 1024);
  }
  [[nodiscard]] bool hands_over(const CallHeader& /*call*/) const override { return false; }
  void execute(const CollectiveCall& call) override;

 private:
  void execute_here(const CollectiveCall& call);
  void all_reduce(const CollectiveCall& call);
  void broadcast(const CollectiveCall& call);
  void gather(const CollectiveCall& call, std::span<const std::int64_t> counts);
  void reduce_scatter(const CollectiveCall& call);

  [[nodiscard]] int rank() const { return host_->topology().rank; }
  [[nodiscard]] int size() const { return host_->topology().size; }
  [[nodiscard]] std::byte* half_of(int rank) const {
    return windows_->of(rank) + half_ % 2 * half_bytes_;
  }
  [[nodiscard]] std::int64_t half_elements(DataType type) const {
    return static_cast<std::int64_t>(half_bytes_ / size_of(type));
  }
  void copy(void* to, const void* from, std::int64_t elements, DataType type) const;
  void meet(const CallHeader& call);
  void reduce(const CollectiveCall& call, std::int64_t from, std::int64_t to, std::int64_t count);

  std::shared_ptr<Backend> host_;
  int device_;
  std::shared_ptr<const DeviceRuntime> runtime_;
  std::shared_ptr<void> stream_;
  std::size_t half_bytes_;
  std::unique_ptr<DeviceChannel> rest_;
  std::unique_ptr<SharedWindows> windows_;
  std::uint32_t half_ = 0;  // flips at every use
};

IpcChannel::~IpcChannel() {
  try {
    runtime_->record(device_, stream_.get())->wait();  // it may still read the windows
  } catch (const std::exception&) {  // the device has failed, and reads nothing any more
  }
}

void IpcChannel::execute(const CollectiveCall& call) {
  if (traits_of(call.collective).buffers == BufferShape::exchanged_uneven)
    return rest_->execute(call);
  if (call.order) call.order->ready->hold_back(stream_.get());
  execute_here(call);
  if (call.order) call.order->done = runtime_->record(device_, stream_.get());
}

void IpcChannel::execute_here(const CollectiveCall& call) {
  switch (call.collective) {
    case Collective::all_reduce:
      return all_reduce(call);
    case Collective::broadcast:
      return broadcast(call);
    case Collective::reduce_scatter:
      return reduce_scatter(call);
    case Collective::all_gather_uneven:
      return gather(call, call.receive_counts);
    default:
      return gather(call, std::vector(static_cast<std::size_t>(size()), call.count));
  }
}

// Nothing for a count below 1.
void IpcChannel::copy(void* to, const void* from, std::int64_t elements, DataType type) const {
  if (elements > 0)
    runtime_->copy(device_, to, from, static_cast<std::size_t>(elements) * size_of(type),
                   stream_.get());
}

// Everybody's half is filled. Ranks whose calls differ find that at the first meeting, when some of
// them may not have come by here: what was filled counts for nothing then, on all of them.
void IpcChannel::meet(const CallHeader& call) {
  runtime_->record(device_, stream_.get())->wait();
  try {
    host_->agree(call);
  } catch (...) {
    --half_;
    throw;
  }
}

// What lies at `from` in all halves, into the output at `to`. A rank that has joined needs no
// results, and has its buffers in the host's memory.
void IpcChannel::reduce(const CollectiveCall& call, std::int64_t from, std::int64_t to,
                        std::int64_t count) {
  if (!call.order || count == 0) return;
  std::vector<const std::byte*> sources;
  for (int peer = 0; peer < size(); ++peer) sources.push_back(at(half_of(peer), from, call.type));
  runtime_->reduce(device_,
                   {.type = call.type,
                    .op = call.op,
                    .sources = sources,
                    .result = at(call.output.data, to, call.type),
                    .count = count,
                    .divisor = call.divisor},
                   stream_.get());
}

// Ranks meet in a collective without elements too.
template <typename Function>
void for_pieces(std::int64_t count, std::int64_t most, const Function& function) {
  std::int64_t begin = 0;
  do {
    function(begin, std::min(most, count - begin));
    begin += most;
  } while (begin < count);
}

void IpcChannel::all_reduce(const CollectiveCall& call) {
  for_pieces(call.count, half_elements(call.type), [&](std::int64_t begin, std::int64_t length) {
    ++half_;
    copy(half_of(rank()), at(call.input.data, begin, call.type), length, call.type);
    meet(call);
    reduce(call, 0, begin, length);
  });
}

void IpcChannel::broadcast(const CollectiveCall& call) {
  const bool is_root = rank() == call.peer;
  for_pieces(call.count, half_elements(call.type), [&](std::int64_t begin, std::int64_t length) {
    ++half_;
    auto* const place = at(call.output.data, begin, call.type);
    if (is_root) copy(half_of(rank()), place, length, call.type);
    meet(call);
    if (!is_root && call.order) copy(place, half_of(call.peer), length, call.type);
  });
}

// `counts`: of each rank. They decide how often the ranks meet, so they are compared.
void IpcChannel::gather(const CollectiveCall& call, std::span<const std::int64_t> counts) {
  CallHeader header = call;
  header.fingerprint = fingerprint_of(counts);
  const auto largest = *std::max_element(counts.begin(), counts.end());
  for_pieces(largest, half_elements(call.type), [&](std::int64_t begin, std::int64_t length) {
    const auto left_of = [&](int peer) {
      return std::min(length, counts[static_cast<std::size_t>(peer)] - begin);
    };
    ++half_;
    copy(half_of(rank()), at(call.input.data, begin, call.type), left_of(rank()), call.type);
    meet(header);
    std::int64_t start = 0;
    for (int peer = 0; peer < size() && call.order; ++peer) {
      copy(at(call.output.data, start + begin, call.type), half_of(peer), left_of(peer), call.type);
      start += counts[static_cast<std::size_t>(peer)];
    }
  });
}

// Of every rank's part a piece at a time, so that the pieces for all ranks fit a half.
void IpcChannel::reduce_scatter(const CollectiveCall& call) {
  const auto part = call.output.count;
  const auto piece = half_elements(call.type) / size();
  for_pieces(part, piece, [&](std::int64_t begin, std::int64_t length) {
    ++half_;
    for (int owner = 0; owner < size(); ++owner) {
      copy(at(half_of(rank()), owner * piece, call.type),
           at(call.input.data, owner * part + begin, call.type), length, call.type);
    }
    meet(call);
    reduce(call, rank() * piece, begin, length);
  });
}

}  // namespace

std::unique_ptr<SharedWindows> make_ipc_windows(Backend& host, int device,
                                                const DeviceOptions& options, LentMemories& lent,
                                                std::string& problem) {
  constexpr std::size_t line = 256;
  const auto lines = options.staging_bytes / line;
  const auto least =
      static_cast<std::size_t>(host.topology().size);  // each rank has one of a piece
  return SharedWindows::make(host, options.runtime, device, 2 * line * std::max(lines, least), lent,
                             problem);
}

std::unique_ptr<DeviceChannel> make_ipc_channel(std::shared_ptr<Backend> host, int device,
                                                const DeviceOptions& options,
                                                std::shared_ptr<void> stream,
                                                std::unique_ptr<SharedWindows> windows,
                                                std::unique_ptr<DeviceChannel> rest) {
  return std::make_unique<IpcChannel>(std::move(host), device, options, std::move(stream),
                                      std::move(windows), std::move(rest));
}

}  // namespace kolo
