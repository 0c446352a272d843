#pragma once

#include <list>
#include <vector>

#include "comm/mpi/mpi_group.h"
#include "kolo/comm/status_exchange.h"

namespace kolo {

// Messages that MPI has been given and may still read.
struct MpiStatusMessages {
  struct Message {
    int to = 0;
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::list<Message> pending;
};

// Point-to-point messages on a communicator of their own. Both are kept by the job: a message to a
// rank that never looks again stays pending, and can be neither awaited nor taken back. Takes the
// thread level `multiple`.
class MpiStatusExchange final : public StatusExchange {
 public:
  MpiStatusExchange(const MpiGroup& group, MpiStatusMessages& messages)
      : group_(group), messages_(messages) {}
  MpiStatusExchange(const MpiStatusExchange&) = delete;
  MpiStatusExchange& operator=(const MpiStatusExchange&) = delete;
  ~MpiStatusExchange() override = default;

  void send(int to, std::span<const std::byte> bytes) override;
  [[nodiscard]] std::optional<Message> receive() override;

 private:
  const MpiGroup& group_;
  MpiStatusMessages& messages_;
};

}  // namespace kolo
