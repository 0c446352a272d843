#include "comm/mpi/mpi_status_exchange.h"

#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr int tag = 1;

}  // namespace

// A message that nobody has taken by now is of no use; MPI may free its request.
MpiStatusExchange::~MpiStatusExchange() {
  if (!runtime_->is_healthy()) return;
  for (auto& [to, pending] : pending_) {
    int is_done = 0;
    if (pending.request == MPI_REQUEST_NULL) continue;
    if (MPI_Test(&pending.request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS || is_done) continue;
    MPI_Cancel(&pending.request);
    MPI_Wait(&pending.request, MPI_STATUS_IGNORE);
  }
}

void MpiStatusExchange::send(int to, std::span<const std::byte> bytes) {
  Pending& pending = pending_[to];
  if (pending.request != MPI_REQUEST_NULL) {
    int is_done = 0;
    check_mpi(MPI_Test(&pending.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!is_done) return;
  }
  pending.bytes.assign(bytes.begin(), bytes.end());
  check_mpi(MPI_Isend(pending.bytes.data(), narrow<int>(pending.bytes.size()), MPI_BYTE, to, tag,
                      group_.get(), &pending.request),
            "MPI_Isend");
}

std::optional<StatusExchange::Message> MpiStatusExchange::receive() {
  int is_there = 0, count = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, group_.get(), &is_there, &status), "MPI_Iprobe");
  if (!is_there) return std::nullopt;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  Message message{.from = status.MPI_SOURCE,
                  .bytes = std::vector<std::byte>(static_cast<std::size_t>(count))};
  check_mpi(MPI_Recv(message.bytes.data(), count, MPI_BYTE, status.MPI_SOURCE, tag, group_.get(),
                     MPI_STATUS_IGNORE),
            "MPI_Recv");
  return message;
}

}  // namespace kolo
