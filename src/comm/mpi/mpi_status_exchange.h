#pragma once

#include <map>

#include "comm/mpi/mpi_runtime.h"
#include "kolo/comm/status_exchange.h"

namespace kolo {

// Point-to-point messages on a communicator of their own, which the job keeps. Takes the thread
// level `multiple`.
class MpiStatusExchange final : public StatusExchange {
 public:
  MpiStatusExchange(std::shared_ptr<const MpiRuntime> runtime, const MpiGroup& group)
      : runtime_(std::move(runtime)), group_(group) {}
  MpiStatusExchange(const MpiStatusExchange&) = delete;
  MpiStatusExchange& operator=(const MpiStatusExchange&) = delete;
  ~MpiStatusExchange() override;

  void send(int to, std::span<const std::byte> bytes) override;
  [[nodiscard]] std::optional<Message> receive() override;

 private:
  struct Pending {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  std::shared_ptr<const MpiRuntime> runtime_;
  const MpiGroup& group_;
  std::map<int, Pending> pending_;  // by receiver
};

}  // namespace kolo
