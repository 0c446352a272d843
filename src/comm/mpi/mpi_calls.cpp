#include "comm/mpi/mpi_calls.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  throw MpiError(fmt::format("comm: {} failed with code {}: {}", call, code,
                             std::string_view(text.data(), static_cast<std::size_t>(length))));
}

MpiGroup::MpiGroup(MPI_Comm communicator) : communicator_(communicator) {
  if (communicator_ != MPI_COMM_NULL) {
    check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
}

MpiGroup MpiGroup::of(MPI_Comm communicator) {
  MPI_Comm same_ranks = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(communicator, 0, 0, &same_ranks), "MPI_Comm_split");
  return MpiGroup(same_ranks);
}

MpiGroup MpiGroup::split(int color, int key) const {
  MPI_Comm split = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(communicator_, color < 0 ? MPI_UNDEFINED : color, key, &split),
            "MPI_Comm_split");
  return MpiGroup(split);
}

void MpiGroup::free() {
  if (communicator_ != MPI_COMM_NULL) check_mpi(MPI_Comm_free(&communicator_), "MPI_Comm_free");
}

int MpiGroup::rank() const {
  int rank = 0;
  check_mpi(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
  return rank;
}

int MpiGroup::size() const {
  int size = 0;
  check_mpi(MPI_Comm_size(communicator_, &size), "MPI_Comm_size");
  return size;
}

int MpiGroup::least(int mine) const {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_MIN, communicator_),
            "MPI_Allreduce");
  return mine;
}

namespace {

constexpr int exchange_tag = 0;
constexpr std::int64_t tests_per_look = 16;
constexpr std::int64_t eager_tests = 1000;  // before others get the processor in between

std::size_t bytes_of(std::int64_t count, MPI_Datatype type) {
  int bytes = 0;
  check_mpi(MPI_Type_size(type, &bytes), "MPI_Type_size");
  return checked_multiply(static_cast<std::size_t>(count), static_cast<std::size_t>(bytes));
}

}  // namespace

std::byte* MpiCalls::own_memory(std::size_t bytes) {
  if (bytes > bytes_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return memory_.get();
}

void MpiCalls::wait(std::span<MPI_Request> requests) {
  for (std::int64_t tests = 1;; ++tests) {
    int are_done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &are_done,
                          MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (are_done != 0) return;
    if (tests % tests_per_look == 0) look();
    if (tests >= eager_tests) std::this_thread::yield();
  }
}

void MpiCalls::look() {
  try {
    look_();
  } catch (...) {
    (void)memory_.release();  // it is MPI's now
    bytes_ = 0;
    throw;
  }
}

// Begins a call on a copy of the values by begin(copy, request), waits for it, and copies the
// result back.
template <typename Begin>
void MpiCalls::on_a_copy(std::byte* values, std::size_t bytes, const Begin& begin) {
  std::byte* const own = own_memory(bytes);
  std::memcpy(own, values, bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  begin(own, &request);
  wait(std::span(&request, 1));
  std::memcpy(values, own, bytes);
}

void MpiCalls::all_reduce(std::byte* values, int count, MPI_Datatype type, MPI_Op operation) {
  if (!can_end_early()) {
    return check_mpi(MPI_Allreduce(MPI_IN_PLACE, values, count, type, operation, communicator_),
                     "MPI_Allreduce");
  }
  on_a_copy(values, bytes_of(count, type), [&](std::byte* own, MPI_Request* request) {
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, own, count, type, operation, communicator_, request),
              "MPI_Iallreduce");
  });
}

void MpiCalls::broadcast(std::byte* values, int count, MPI_Datatype type, int root) {
  if (!can_end_early()) {
    return check_mpi(MPI_Bcast(values, count, type, root, communicator_), "MPI_Bcast");
  }
  on_a_copy(values, bytes_of(count, type), [&](std::byte* own, MPI_Request* request) {
    check_mpi(MPI_Ibcast(own, count, type, root, communicator_, request), "MPI_Ibcast");
  });
}

void MpiCalls::all_gather(std::byte* output, std::span<const int> counts,
                          std::span<const int> starts, MPI_Datatype type) {
  if (!can_end_early()) {
    return check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, output, counts.data(),
                                    starts.data(), type, communicator_),
                     "MPI_Allgatherv");
  }
  const auto bytes = bytes_of(std::int64_t{starts.back()} + counts.back(), type);
  on_a_copy(output, bytes, [&](std::byte* own, MPI_Request* request) {
    check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, own, counts.data(), starts.data(),
                              type, communicator_, request),
              "MPI_Iallgatherv");
  });
}

void MpiCalls::exchange(const Message& sent, const Message& received, MPI_Datatype type) {
  const int to = sent.count > 0 ? sent.peer : MPI_PROC_NULL;
  const int from = received.count > 0 ? received.peer : MPI_PROC_NULL;
  if (!can_end_early()) {
    return check_mpi(
        MPI_Sendrecv(sent.values, sent.count, type, to, exchange_tag, received.values,
                     received.count, type, from, exchange_tag, communicator_, MPI_STATUS_IGNORE),
        "MPI_Sendrecv");
  }
  const auto sent_bytes = bytes_of(sent.count, type), bytes = bytes_of(received.count, type);
  std::byte* const own = own_memory(checked_add(sent_bytes, bytes));
  if (sent.count > 0) std::memcpy(own, sent.values, sent_bytes);
  std::array<MPI_Request, 2> requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  check_mpi(MPI_Irecv(own + sent_bytes, received.count, type, from, exchange_tag, communicator_,
                      &requests[0]),
            "MPI_Irecv");
  check_mpi(MPI_Isend(own, sent.count, type, to, exchange_tag, communicator_, &requests[1]),
            "MPI_Isend");
  wait(requests);
  if (received.count > 0) std::memcpy(received.values, own + sent_bytes, bytes);
}

void MpiCalls::barrier() {
  if (!can_end_early()) return check_mpi(MPI_Barrier(communicator_), "MPI_Barrier");
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(communicator_, &request), "MPI_Ibarrier");
  wait(std::span(&request, 1));
}

}  // namespace kolo
