#include "comm/mpi/mpi_status_exchange.h"

#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr int tag = 1;
constexpr int most_pending = 64;  // to one rank

}  // namespace

void MpiStatusExchange::send(int to, std::span<const std::byte> bytes) {
  int pending_there = 0;
  for (auto message = messages_.pending.begin(); message != messages_.pending.end();) {
    int is_done = 0;
    check_mpi(MPI_Test(&message->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!is_done && message->to == to) ++pending_there;
    message = is_done ? messages_.pending.erase(message) : std::next(message);
  }
  if (pending_there >= most_pending) return;
  auto& message = messages_.pending.emplace_back();
  message.to = to;
  message.bytes.assign(bytes.begin(), bytes.end());
  check_mpi(MPI_Isend(message.bytes.data(), narrow<int>(message.bytes.size()), MPI_BYTE, to, tag,
                      group_.get(), &message.request),
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
