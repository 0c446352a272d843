#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/device/device_channel.h"
#include "comm/device/joined_call.h"
#include "comm/shared_memory/reduce_kernels.h"

// MPI only moves values. Each rank owns a part of what is reduced: it receives that part of all
// ranks, its device reduces them, in the order of ranks, and everybody gets the results: as many
// bytes as a ring's.
namespace kolo {

namespace {

class MpiChannel final : public DeviceChannel {
 public:
  MpiChannel(std::shared_ptr<Backend> host, int device, const DeviceOptions& options,
             std::shared_ptr<void> stream)
      : host_(std::move(host)),
        device_(device),
        runtime_(options.runtime),
        stream_(std::move(stream)),
        piece_bytes_(std::max<std::size_t>(2 * options.staging_bytes, 4096)) {}

  [[nodiscard]] std::string description() const override {
    return "an MPI that takes the devices' memory";
  }
  [[nodiscard]] std::string host_waits() const override {
    return fmt::format("once a call, and where values are reduced once every {} KiB",
                       piece_bytes_ / 1024);
  }
  [[nodiscard]] bool hands_over(const CallHeader& /*call*/) const override { return false; }
  void execute(const CollectiveCall& call) override;

 private:
  void execute_on_device(const CollectiveCall& call);
  void all_reduce(const CollectiveCall& call);
  void all_reduce_piece(const CollectiveCall& call, const Buffer& piece);
  void reduce_scatter(const CollectiveCall& call);
  void gather(const CollectiveCall& call, std::int64_t start);

  [[nodiscard]] int rank() const { return host_->topology().rank; }
  [[nodiscard]] int size() const { return host_->topology().size; }
  [[nodiscard]] std::byte* scratch(std::size_t bytes);
  void reduce(const CollectiveCall& call, const std::byte* operands, const Buffer& result);
  void move(CollectiveCall call);
  void wait() const { runtime_->record(device_, stream_.get())->wait(); }

  std::shared_ptr<Backend> host_;
  int device_;
  std::shared_ptr<const DeviceRuntime> runtime_;
  std::shared_ptr<void> stream_;
  std::size_t piece_bytes_;
  std::shared_ptr<std::byte> scratch_;
  std::size_t scratch_bytes_ = 0;
};

void MpiChannel::execute(const CollectiveCall& call) {
  host_->agree(call);
  runtime_->use(device_);  // MPI works with the thread's
  if (!call.order) {
    const JoinedCall joined(*runtime_, device_, stream_.get(), call);
    wait();
    execute_on_device(joined.there());
    return wait();
  }
  call.order->ready->wait();
  execute_on_device(call);
  call.order->done = runtime_->record(device_, stream_.get());
}

void MpiChannel::execute_on_device(const CollectiveCall& call) {
  switch (call.collective) {
    case Collective::all_reduce:
      return all_reduce(call);
    case Collective::reduce_scatter:
      return reduce_scatter(call);
    case Collective::all_gather:
      return gather(call, rank() * call.input.count);
    case Collective::all_gather_uneven: {
      std::int64_t start = 0;
      for (int peer = 0; peer < rank(); ++peer)
        start += call.receive_counts[static_cast<std::size_t>(peer)];
      return gather(call, start);
    }
    default:
      return move(call);
  }
}

std::byte* MpiChannel::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_.reset();
    scratch_ = runtime_->allocate(device_, bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

// The addresses are those that MPI reads and writes.
void MpiChannel::move(CollectiveCall call) {
  if (call.input.count > 0)
    call.input.data = runtime_->seen_by_mpi(const_cast<void*>(call.input.data));
  if (call.output.count > 0) call.output.data = runtime_->seen_by_mpi(call.output.data);
  host_->move(call);
}

// What all ranks have sent, one after another, becomes the result, when the host goes on.
void MpiChannel::reduce(const CollectiveCall& call, const std::byte* operands,
                        const Buffer& result) {
  if (result.count == 0) return;
  std::vector<const std::byte*> sources;
  for (int peer = 0; peer < size(); ++peer)
    sources.push_back(at(operands, peer * result.count, result.type));
  runtime_->reduce(device_,
                   {.type = result.type,
                    .op = call.op,
                    .sources = sources,
                    .result = static_cast<std::byte*>(result.data),
                    .count = result.count,
                    .divisor = call.divisor},
                   stream_.get());
  wait();
}

void MpiChannel::all_reduce(const CollectiveCall& call) {
  const auto most = static_cast<std::int64_t>(piece_bytes_ / size_of(call.type));
  for (std::int64_t begin = 0; begin < call.count; begin += most) {
    all_reduce_piece(call, Buffer(at(call.output.data, begin, call.type),
                                  std::min(most, call.count - begin), call.type));
  }
}

void MpiChannel::all_reduce_piece(const CollectiveCall& call, const Buffer& piece) {
  const auto part = (piece.count + size() - 1) / size();
  std::vector<std::int64_t> counts;
  for (int owner = 0; owner < size(); ++owner)
    counts.push_back(std::clamp(piece.count - owner * part, std::int64_t{0}, part));
  const auto mine = counts[static_cast<std::size_t>(rank())];
  const Buffer operands(scratch(piece.bytes() + size_of(piece.type) * counts.size()), mine * size(),
                        piece.type);
  move(CollectiveCall::all_to_all(piece, counts, operands,
                                  std::vector(static_cast<std::size_t>(size()), mine)));
  const Buffer result(at(piece.data, std::min(piece.count, rank() * part), piece.type), mine,
                      piece.type);
  reduce(call, static_cast<const std::byte*>(operands.data), result);
  move(CollectiveCall::all_gather_uneven(result, piece, counts));
}

void MpiChannel::reduce_scatter(const CollectiveCall& call) {
  const std::vector counts(static_cast<std::size_t>(size()), call.output.count);
  const Buffer operands(scratch(call.input.bytes() + 1), call.input.count, call.type);
  move(CollectiveCall::all_to_all(call.input, counts, operands, counts));
  reduce(call, static_cast<const std::byte*>(operands.data), call.output);
}

// This rank's part comes to its place by the device, which MPI then takes from there.
void MpiChannel::gather(const CollectiveCall& call, std::int64_t start) {
  CollectiveCall in_place = call;
  in_place.input.data = at(call.output.data, start, call.type);
  if (call.input.bytes() > 0 && in_place.input.data != call.input.data) {
    runtime_->copy(device_, const_cast<void*>(in_place.input.data), call.input.data,
                   call.input.bytes(), stream_.get());
    wait();
  }
  move(in_place);
}

}  // namespace

std::unique_ptr<DeviceChannel> make_mpi_channel(std::shared_ptr<Backend> host, int device,
                                                const DeviceOptions& options,
                                                std::shared_ptr<void> stream) {
  return std::make_unique<MpiChannel>(std::move(host), device, options, std::move(stream));
}

}  // namespace kolo
