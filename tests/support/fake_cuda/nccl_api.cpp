// NCCL's functions, by ranks that meet in shared memory. What NCCL's contract forbids is a
// violation.
#include <nccl.h>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <type_traits>
#include <vector>

#include "machine.h"
#include "nccl_meeting.h"

using fake_cuda::Access;
using fake_cuda::Machine;
using fake_cuda::Meeting;
using fake_cuda::MemoryKind;
using fake_cuda::violation;

struct ncclComm {
  int device;
  std::shared_ptr<Meeting> meeting;
  std::atomic<int> calls_now = 0;
};

namespace {

struct Call {
  std::string name;
  ncclComm_t comm;
  const char* input;
  char* output;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  // root, or who sends or receives
  cudaStream_t stream;
};

thread_local int depth = 0;
thread_local std::vector<Call> grouped;
thread_local std::string last_error;

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

// Elements of all ranks, in the order of the ranks.
template <typename T>
void reduce(ncclRedOp_t op, std::size_t count, int ranks,
            const std::function<const std::byte*(int)>& of_rank, std::byte* output) {
  for (std::size_t i = 0; i < count; ++i) {
    T total{};
    for (int rank = 0; rank < ranks; ++rank) {
      T value;
      std::memcpy(&value, of_rank(rank) + i * sizeof(T), sizeof(T));
      // As NCCL: real numbers are scaled before they are added, so that large ones don't overflow.
      if (op == ncclAvg && !std::is_integral_v<T>)
        value = static_cast<T>(value * static_cast<T>(1. / ranks));
      if (rank == 0)
        total = value;
      else if (op == ncclProd)
        total = static_cast<T>(total * value);
      else if (op == ncclMax)
        total = std::max(total, value);
      else if (op == ncclMin)
        total = std::min(total, value);
      else
        total = static_cast<T>(total + value);
    }
    if (op == ncclAvg && std::is_integral_v<T>)
      total = static_cast<T>(total / static_cast<T>(ranks));
    std::memcpy(output + i * sizeof(T), &total, sizeof(T));
  }
}

void reduce(const Call& call, std::size_t count,
            const std::function<const std::byte*(int)>& of_rank, std::byte* output) {
  const int ranks = call.comm->meeting->size();
  switch (call.type) {
    case ncclInt8:
      return reduce<std::int8_t>(call.op, count, ranks, of_rank, output);
    case ncclUint8:
      return reduce<std::uint8_t>(call.op, count, ranks, of_rank, output);
    case ncclInt32:
      return reduce<std::int32_t>(call.op, count, ranks, of_rank, output);
    case ncclInt64:
      return reduce<std::int64_t>(call.op, count, ranks, of_rank, output);
    case ncclFloat16:
      return reduce<c10::Half>(call.op, count, ranks, of_rank, output);
    case ncclBfloat16:
      return reduce<c10::BFloat16>(call.op, count, ranks, of_rank, output);
    case ncclFloat32:
      return reduce<float>(call.op, count, ranks, of_rank, output);
    case ncclFloat64:
      return reduce<double>(call.op, count, ranks, of_rank, output);
    default:
      violation("NCCL: a type that is not played");
  }
}

// visit(offset, bytes) for pieces that fit into the meeting's memory.
template <typename Visit>
void for_each_piece(std::size_t bytes, const Visit& visit) {
  for (std::size_t at = 0; at < bytes; at += Meeting::piece_bytes)
    visit(at, std::min(Meeting::piece_bytes, bytes - at));
}

std::span<const std::byte> bytes_at(const char* memory, std::size_t offset, std::size_t bytes) {
  return {reinterpret_cast<const std::byte*>(memory) + offset, bytes};
}

// On the stream's thread.
void run(const Call& call, Meeting& meeting) {
  const std::size_t bytes = call.count * size_of(call.type);
  const int own = meeting.rank();
  meeting.compare(call.name + " of " + std::to_string(call.count) + " of type " +
                  std::to_string(call.type) + ", op " + std::to_string(call.op) + ", root " +
                  std::to_string(call.peer));
  auto* const output = reinterpret_cast<std::byte*>(call.output);
  if (call.name == "ncclAllReduce") {
    for_each_piece(bytes, [&](std::size_t at, std::size_t length) {
      meeting.exchange(bytes_at(call.input, at, length), [&](const auto& of_rank) {
        reduce(call, length / size_of(call.type), of_rank, output + at);
      });
    });
  } else if (call.name == "ncclReduceScatter") {
    for (int to = 0; to < meeting.size(); ++to)
      for_each_piece(bytes, [&](std::size_t at, std::size_t length) {
        meeting.exchange(bytes_at(call.input, static_cast<std::size_t>(to) * bytes + at, length),
                         [&](const auto& of_rank) {
                           if (to == own)
                             reduce(call, length / size_of(call.type), of_rank, output + at);
                         });
      });
  } else if (call.name == "ncclAllGather") {
    for_each_piece(bytes, [&](std::size_t at, std::size_t length) {
      meeting.exchange(bytes_at(call.input, at, length), [&](const auto& of_rank) {
        for (int from = 0; from < meeting.size(); ++from)
          std::memcpy(output + static_cast<std::size_t>(from) * bytes + at, of_rank(from), length);
      });
    });
  } else if (call.name == "ncclBroadcast") {
    for_each_piece(bytes, [&](std::size_t at, std::size_t length) {
      meeting.exchange(
          own == call.peer ? bytes_at(call.input, at, length) : std::span<const std::byte>(),
          [&](const auto& of_rank) { std::memcpy(output + at, of_rank(call.peer), length); });
    });
  }
}

// Sends and receives of a group: each pair of ranks, one after the other.
void run_transfers(const std::vector<Call>& calls, Meeting& meeting) {
  const int own = meeting.rank();
  const auto find = [&](const char* name, int peer) {
    return std::find_if(calls.begin(), calls.end(),
                        [&](const Call& call) { return call.name == name && call.peer == peer; });
  };
  for (int from = 0; from < meeting.size(); ++from) {
    for (int to = 0; to < meeting.size(); ++to) {
      const auto sent = find("ncclSend", to), received = find("ncclRecv", from);
      const bool sends = from == own && sent != calls.end(),
                 receives = to == own && received != calls.end();
      std::uint64_t bytes = sends ? sent->count * size_of(sent->type) : 0;
      meeting.exchange(
          {reinterpret_cast<const std::byte*>(&bytes), sizeof(bytes)},
          [&](const auto& of_rank) { std::memcpy(&bytes, of_rank(from), sizeof(bytes)); });
      if (to == own && bytes != (receives ? received->count * size_of(received->type) : 0))
        violation("NCCL: rank " + std::to_string(own) + " doesn't receive what rank " +
                  std::to_string(from) + " sends");
      for_each_piece(bytes, [&](std::size_t at, std::size_t length) {
        meeting.exchange(sends ? bytes_at(sent->input, at, length) : std::span<const std::byte>(),
                         [&](const auto& of_rank) {
                           if (receives) std::memcpy(received->output + at, of_rank(from), length);
                         });
      });
    }
  }
}

std::set<ncclComm_t>& live_communicators() {
  static auto* const all = new std::set<ncclComm_t>;
  return *all;
}

void check(const Call& call) {
  auto& machine = Machine::instance();
  const std::lock_guard lock(machine.mutex);
  if (!live_communicators().contains(call.comm))
    violation(call.name + ": the communicator is gone");
  if (fake_cuda::current_device() != call.comm->device)
    violation(call.name + ": another device is current");
  if (machine.stream_of(call.stream).device() != call.comm->device)
    violation(call.name + ": the stream is another device's");
  for (const void* const memory :
       {static_cast<const void*>(call.input), static_cast<const void*>(call.output)}) {
    if (memory == nullptr || call.count == 0) continue;
    const auto place = machine.place_of(memory);
    if (!place.is_known) violation(call.name + ": of memory that is neither a device's nor pinned");
  }
}

std::vector<Access> accesses_of(const std::vector<Call>& calls) {
  std::vector<Access> all;
  for (const Call& call : calls) {
    const std::size_t bytes = call.count * size_of(call.type);
    const auto ranks = static_cast<std::size_t>(call.comm->meeting->size());
    if (call.input != nullptr)
      all.push_back({call.input, call.name == "ncclReduceScatter" ? bytes * ranks : bytes, false});
    if (call.output != nullptr)
      all.push_back({call.output, call.name == "ncclAllGather" ? bytes * ranks : bytes, true});
  }
  return all;
}

ncclResult_t enqueue(std::vector<Call> calls) {
  if (calls.empty()) return ncclSuccess;
  const auto accesses = accesses_of(calls);
  auto& machine = Machine::instance();
  const auto meeting = calls.front().comm->meeting;
  auto& stream = machine.stream_of(calls.front().stream);
  const std::string name = calls.front().name;
  (void)machine.submit(
      stream, name,
      [calls = std::move(calls), meeting] {
        try {
          std::vector<Call> transfers;
          for (const Call& call : calls) {
            if (call.name == "ncclSend" || call.name == "ncclRecv")
              transfers.push_back(call);
            else
              run(call, *meeting);
          }
          if (!transfers.empty()) run_transfers(transfers, *meeting);
        } catch (const Meeting::Aborted&) {
          fake_cuda::tell("NCCL: a call was aborted");
        }
      },
      accesses);
  return ncclSuccess;
}

ncclResult_t add(Call call) {
  check(call);
  if (call.comm->calls_now.fetch_add(1) != 0)
    violation(call.name + ": another thread calls with this communicator");
  if (depth > 0)
    grouped.push_back(std::move(call));
  else
    (void)enqueue({call});
  --call.comm->calls_now;
  return ncclSuccess;
}

const char* bytes_of(const void* memory) {
  return static_cast<const char*>(memory);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t status) {
  return status == ncclSuccess        ? "no error"
         : status == ncclInvalidUsage ? "invalid usage"
                                      : "an error";
}
const char* ncclGetLastError(ncclComm_t) {
  return last_error.c_str();
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  const auto name =
      "/kolo-fake-nccl-" + std::to_string(getpid()) + "-" + std::to_string(std::random_device()());
  std::memcpy(id->internal, name.c_str(), name.size());
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  Machine::instance().need_context(__func__);
  const int device = fake_cuda::current_device();
  const char* host = std::getenv("NCCL_HOSTID");
  const auto host_and_device = std::string(host == nullptr ? "host" : host) + "/" +
                               std::to_string(Machine::instance().place(device));
  auto meeting = std::make_shared<Meeting>(id.internal, rank, size, host_and_device);
  if (const int other = meeting->rank_on_same_device(); other >= 0) {
    last_error =
        "Duplicate GPU detected: ranks " + std::to_string(rank) + " and " + std::to_string(other);
    return ncclInvalidUsage;
  }
  *comm = new ncclComm{device, std::move(meeting)};
  const char* const level = std::getenv("NCCL_DEBUG");
  const char* const file = std::getenv("NCCL_DEBUG_FILE");
  if (level != nullptr && file != nullptr && std::string(level) == "INFO")
    std::ofstream(file, std::ios::app) << host_and_device << ": NCCL INFO Using network Fake\n";
  const std::lock_guard lock(Machine::instance().mutex);
  live_communicators().insert(*comm);
  if (std::ssize(live_communicators()) > fake_cuda::setting("FAKE_COMMUNICATORS", 1L << 20))
    violation("ncclCommInitRank: this process has more communicators than FAKE_COMMUNICATORS");
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* status) {
  *status = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  {
    const std::lock_guard lock(Machine::instance().mutex);
    if (live_communicators().erase(comm) == 0)
      violation("ncclCommDestroy: the communicator is gone");
  }
  Machine::instance().wait_for_all(comm->device);
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(Machine::instance().mutex);
  if (live_communicators().erase(comm) == 0) violation("ncclCommAbort: the communicator is gone");
  comm->meeting->abort();  // its memory lives as long as calls that are on their way
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add(
      {__func__, comm, bytes_of(input), static_cast<char*>(output), count, type, op, 0, stream});
}
ncclResult_t ncclReduceScatter(const void* input, void* output, std::size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return add(
      {__func__, comm, bytes_of(input), static_cast<char*>(output), count, type, op, 0, stream});
}
ncclResult_t ncclBroadcast(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add({__func__, comm, comm->meeting->rank() == root ? bytes_of(input) : nullptr,
              static_cast<char*>(output), count, type, ncclSum, root, stream});
}
ncclResult_t ncclAllGather(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return add({__func__, comm, bytes_of(input), static_cast<char*>(output), count, type, ncclSum, 0,
              stream});
}
ncclResult_t ncclSend(const void* input, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (depth == 0) violation("ncclSend: outside a group");
  return add({__func__, comm, bytes_of(input), nullptr, count, type, ncclSum, peer, stream});
}
ncclResult_t ncclRecv(void* output, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (depth == 0) violation("ncclRecv: outside a group");
  return add(
      {__func__, comm, nullptr, static_cast<char*>(output), count, type, ncclSum, peer, stream});
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (depth == 0) violation("ncclGroupEnd: without its ncclGroupStart");
  if (--depth > 0) return ncclSuccess;
  return enqueue(std::exchange(grouped, {}));
}

}  // extern "C"
