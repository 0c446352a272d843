#include <nccl.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "comm/cuda/check_cuda.h"
#include "comm/device/device_channel.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

using Clock = std::chrono::steady_clock;

// Finding the other ranks takes less in the largest jobs.
constexpr std::chrono::minutes patience_at_start{10};
// The others may have ended, and NCCL would wait for them.
constexpr std::chrono::seconds patience_at_end{5};
constexpr std::chrono::milliseconds patience_with_call{100};

[[noreturn]] void fail(ncclResult_t status, std::string_view what, ncclComm_t of) {
  const char* const last = of == nullptr ? nullptr : ncclGetLastError(of);
  const std::string more = last == nullptr || *last == 0 ? "" : fmt::format(": {}", last);
  const auto message =
      fmt::format("comm: NCCL: {} failed: {}{}", what, ncclGetErrorString(status), more);
  if (status == ncclRemoteError) throw CommunicationError(message);
  throw Error(message + "; NCCL_DEBUG=INFO in the environment makes it tell more");
}

struct Reduction {
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
};

// Empty where NCCL's reduction is another one: it has no 16-bit integers, its averages of integers
// wrap round, and its minima and maxima of floating-point numbers lose NaN.
std::optional<Reduction> reduction_of(DataType type, ReduceOp op) {
  if (type == DataType::boolean) {
    const bool is_or = op == ReduceOp::sum || op == ReduceOp::max;
    return Reduction{ncclUint8, is_or ? ncclMax : ncclMin};
  }
  const bool is_floating = type <= DataType::bfloat16;
  if (op == ReduceOp::average && !is_floating) return std::nullopt;
  if ((op == ReduceOp::min || op == ReduceOp::max) && is_floating) return std::nullopt;
  if (type == DataType::int16) return std::nullopt;
  // The tables are in the order of ReduceOp and DataType.
  constexpr std::array ops = {ncclSum, ncclAvg, ncclMin, ncclMax, ncclProd};
  constexpr std::array types = {ncclFloat64, ncclFloat32,  ncclFloat16, ncclBfloat16, ncclInt64,
                                ncclInt32,   ncclNumTypes, ncclInt8,    ncclUint8};
  return Reduction{types[static_cast<std::size_t>(type)], ops[static_cast<std::size_t>(op)]};
}

// Runs `call` on a thread of its own; empty when it has not returned after `patience`, and then the
// thread is left to itself.
std::optional<ncclResult_t> result_within(Clock::duration patience,
                                          std::function<ncclResult_t()> call) {
  std::promise<ncclResult_t> promise;
  auto result = promise.get_future();
  std::thread([promise = std::move(promise), call = std::move(call)]() mutable {
    promise.set_value(call());
  }).detach();
  if (result.wait_for(patience) != std::future_status::ready) return std::nullopt;
  return result.get();
}

// NCCL's communicator. It is a blocking one, to which a collective is given in some 10 us; a
// non-blocking one starts a thread for each call, and has to be asked until that is done.
class NcclGroup {
 public:
  NcclGroup(const Topology& topology, int device, const NcclId& id);
  ~NcclGroup();

  // Gives NCCL a call: call(communicator). CommunicationError once abort() was called, after which
  // the communicator is gone; Error where NCCL refuses it.
  template <typename Call>
  void run(std::string_view what, const Call& call);
  // Also from another thread, whose wait in a call it ends.
  void abort() noexcept;

 private:
  ncclComm_t group_ = nullptr;
  int device_;
  std::timed_mutex mutex_;  // while NCCL gets a call
  std::atomic<bool> is_aborted_ = false;
};

[[noreturn]] void fail_as_aborted() {
  throw CommunicationError("comm: NCCL: another rank has failed");
}

NcclGroup::NcclGroup(const Topology& topology, int device, const NcclId& id) : device_(device) {
  ncclUniqueId unique{};
  static_assert(sizeof(unique) == nccl_id_bytes);
  std::memcpy(&unique, id.data(), sizeof(unique));
  const auto made = std::make_shared<ncclComm_t>(nullptr);
  const auto status = result_within(
      patience_at_start,
      [made, device, unique, size = topology.size, rank = topology.rank]() -> ncclResult_t {
        if (cudaSetDevice(device) != cudaSuccess) return ncclUnhandledCudaError;
        return ncclCommInitRank(made.get(), size, unique, rank);
      });
  if (!status) {
    throw Error(
        fmt::format("comm: NCCL: rank {} has waited for the others for {} minutes; do the "
                    "nodes reach each other (NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO)?",
                    topology.rank, patience_at_start.count()));
  }
  if (*status != ncclSuccess) fail(*status, "ncclCommInitRank", nullptr);
  group_ = *made;
}

template <typename Call>
void NcclGroup::run(std::string_view what, const Call& call) {
  const std::lock_guard lock(mutex_);
  if (is_aborted_) fail_as_aborted();
  const ncclResult_t status = call(group_);
  if (status == ncclSuccess) return;
  if (is_aborted_) fail_as_aborted();
  fail(status, what, group_);
}

void NcclGroup::abort() noexcept {
  if (is_aborted_.exchange(true)) return;
  // A call that takes longer waits for other ranks, and ends only by this.
  const bool is_free = mutex_.try_lock_for(patience_with_call);
  (void)ncclCommAbort(group_);
  if (is_free) mutex_.unlock();
}

NcclGroup::~NcclGroup() {
  if (is_aborted_) return;
  const auto destroy = [group = group_, device = device_]() -> ncclResult_t {
    if (cudaSetDevice(device) != cudaSuccess) return ncclUnhandledCudaError;
    return ncclCommDestroy(group);
  };
  if (!result_within(patience_at_end, destroy)) (void)ncclCommAbort(group_);
}

// Network that NCCL took for other nodes, which only its log tells; empty where that isn't at hand.
std::string network_of_nccl() {
  constexpr std::string_view before = "Using network ";
  const char* const path = std::getenv("NCCL_DEBUG_FILE");
  std::ifstream log(path == nullptr ? "" : path);
  for (std::string line; std::getline(log, line);) {
    if (const auto at = line.find(before); at != std::string::npos)
      return line.substr(at + before.size());
  }
  return {};
}

class NcclChannel final : public DeviceChannel {
 public:
  NcclChannel(const Topology& topology, int device, const NcclId& id, const DeviceOptions& options,
              std::shared_ptr<void> stream, MakeChannel make_rest)
      : topology_(topology),
        device_(device),
        runtime_(options.runtime),
        stream_(std::move(stream)),
        make_rest_(std::move(make_rest)),
        group_(topology, device, id) {}

  [[nodiscard]] std::string description() const override {
    const auto network = network_of_nccl();
    return fmt::format("{} ({}the host waits: never)", nccl_version(),
                       network.empty() ? "" : fmt::format("network {}; ", network));
  }
  [[nodiscard]] bool hands_over(const CallHeader& call) const override { return can_do(call); }
  void execute(const CollectiveCall& call) override {
    // NCCL's average is that of all ranks; while some have joined it is another.
    const bool is_partial_average = traits_of(call.collective).reduces &&
                                    call.op == ReduceOp::average && call.divisor != topology_.size;
    if (!can_do(call) || is_partial_average) return rest().execute(call);
    if (!call.order) return execute_of_host(call);
    call.order->ready->hold_back(stream_.get());
    enqueue(call);
    call.order->done = runtime_->record(device_, stream_.get());
  }
  void abort() noexcept override { group_.abort(); }

 private:
  [[nodiscard]] static bool can_do(const CallHeader& call) {
    return !traits_of(call.collective).reduces || reduction_of(call.type, call.op);
  }
  [[nodiscard]] DeviceChannel& rest() {
    if (!rest_) rest_ = make_rest_();
    return *rest_;
  }
  // A rank that has joined has its values in the host's memory, and nobody needs its result.
  void execute_of_host(const CollectiveCall& call) {
    const auto input = runtime_->allocate(device_, call.input.bytes() + 1);
    const auto output = runtime_->allocate(device_, call.output.bytes() + 1);
    if (call.input.bytes() > 0)
      runtime_->copy(device_, input.get(), call.input.data, call.input.bytes(), stream_.get());
    const bool is_in_place = traits_of(call.collective).buffers == BufferShape::in_place;
    CollectiveCall there = call;
    there.input = ConstBuffer(input.get(), call.input.count, call.input.type);
    there.output =
        Buffer(is_in_place ? input.get() : output.get(), call.output.count, call.output.type);
    enqueue(there);
    runtime_->record(device_, stream_.get())->wait();
  }
  void enqueue(const CollectiveCall& call) {
    use_device(device_);
    group_.run(name_of(call.collective), [&](ncclComm_t group) { return begin(call, group); });
  }
  [[nodiscard]] ncclResult_t begin(const CollectiveCall& call, ncclComm_t group) {
    const auto& [input, output] = std::tie(call.input, call.output);
    const auto reduction = reduction_of(call.type, call.op).value_or(Reduction{});
    switch (call.collective) {
      case Collective::all_reduce:
        return ncclAllReduce(input.data, output.data, static_cast<std::size_t>(input.count),
                             reduction.type, reduction.op, group, stream());
      case Collective::reduce_scatter:
        return ncclReduceScatter(input.data, output.data, static_cast<std::size_t>(output.count),
                                 reduction.type, reduction.op, group, stream());
      case Collective::broadcast:
        return ncclBroadcast(input.data, output.data, output.bytes(), ncclInt8, call.peer, group,
                             stream());
      case Collective::all_gather:
        return ncclAllGather(input.data, output.data, input.bytes(), ncclInt8, group, stream());
      case Collective::all_gather_uneven:
        return gather_uneven(call, group);
      case Collective::all_to_all:
        return exchange(call, group);
      default:
        return ncclInvalidUsage;
    }
  }
  // A broadcast from each rank, all at once.
  [[nodiscard]] ncclResult_t gather_uneven(const CollectiveCall& call, ncclComm_t group) {
    auto* to = static_cast<std::byte*>(call.output.data);
    auto status = ncclGroupStart();
    for (int rank = 0; rank < topology_.size; ++rank) {
      const auto bytes =
          static_cast<std::size_t>(call.receive_counts[static_cast<std::size_t>(rank)]) *
          size_of(call.type);
      const void* const from = rank == topology_.rank ? call.input.data : to;
      if (status == ncclSuccess && bytes > 0)
        status = ncclBroadcast(from, to, bytes, ncclInt8, rank, group, stream());
      to += bytes;
    }
    const auto end = ncclGroupEnd();
    return status == ncclSuccess ? end : status;
  }
  [[nodiscard]] ncclResult_t exchange(const CollectiveCall& call, ncclComm_t group) {
    const auto* from = static_cast<const std::byte*>(call.input.data);
    auto* to = static_cast<std::byte*>(call.output.data);
    auto status = ncclGroupStart();
    for (int peer = 0; peer < topology_.size; ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      const auto sent = static_cast<std::size_t>(call.send_counts[index]) * size_of(call.type);
      const auto received =
          static_cast<std::size_t>(call.receive_counts[index]) * size_of(call.type);
      if (status == ncclSuccess && sent > 0)
        status = ncclSend(from, sent, ncclInt8, peer, group, stream());
      if (status == ncclSuccess && received > 0)
        status = ncclRecv(to, received, ncclInt8, peer, group, stream());
      from += sent;
      to += received;
    }
    const auto end = ncclGroupEnd();
    return status == ncclSuccess ? end : status;
  }
  [[nodiscard]] cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_.get()); }

  Topology topology_;
  int device_;
  std::shared_ptr<const DeviceRuntime> runtime_;
  std::shared_ptr<void> stream_;
  MakeChannel make_rest_;
  std::unique_ptr<DeviceChannel> rest_;  // made by its first call
  NcclGroup group_;
};

}  // namespace

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "NCCL";
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void log_nccl_start() {
  if (std::getenv("NCCL_DEBUG") != nullptr) return;
  const int log = ::memfd_create("kolo-nccl", MFD_CLOEXEC);  // open as long as the process lives
  if (log < 0) return;
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT", 1);
  ::setenv("NCCL_DEBUG_FILE", fmt::format("/proc/self/fd/{}", log).c_str(), 1);
}

NcclId make_nccl_id() {
  ncclUniqueId unique{};
  if (const auto status = ncclGetUniqueId(&unique); status != ncclSuccess)
    fail(status, "ncclGetUniqueId", nullptr);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&unique);
  return {bytes, bytes + sizeof(unique)};
}

std::unique_ptr<DeviceChannel> make_nccl_channel(const Topology& topology, int device,
                                                 const NcclId& id, const DeviceOptions& options,
                                                 std::shared_ptr<void> stream,
                                                 MakeChannel make_rest) {
  return std::make_unique<NcclChannel>(topology, device, id, options, std::move(stream),
                                       std::move(make_rest));
}

}  // namespace kolo
