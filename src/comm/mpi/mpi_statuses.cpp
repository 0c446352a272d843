#include "comm/mpi/mpi_statuses.h"

#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr int status_tag = 1;
constexpr int most_pending_statuses = 64;  // to one rank

class MpiStatusExchange final : public StatusExchange {
 public:
  MpiStatusExchange(const MpiGroup& group, MpiSmallMessages& messages)
      : group_(group), messages_(messages) {
    const auto size = static_cast<std::size_t>(group_.size());
    messages_.sent.resize(size);
    messages_.received.resize(size);
  }
  MpiStatusExchange(const MpiStatusExchange&) = delete;
  MpiStatusExchange& operator=(const MpiStatusExchange&) = delete;
  ~MpiStatusExchange() override = default;

  void send(int to, std::span<const std::byte> bytes) override;
  [[nodiscard]] std::optional<Message> receive() override;

 private:
  const MpiGroup& group_;
  MpiSmallMessages& messages_;
};

void MpiStatusExchange::send(int to, std::span<const std::byte> bytes) {
  int pending_there = 0;
  for (auto message = messages_.pending.begin(); message != messages_.pending.end();) {
    int is_done = 0;
    check_mpi(MPI_Test(&message->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!is_done && message->to == to) ++pending_there;
    message = is_done ? messages_.pending.erase(message) : std::next(message);
  }
  if (pending_there >= most_pending_statuses) return;
  ++messages_.sent[static_cast<std::size_t>(to)];
  auto& message = messages_.pending.emplace_back();
  message.to = to;
  message.bytes.assign(bytes.begin(), bytes.end());
  check_mpi(MPI_Isend(message.bytes.data(), narrow<int>(message.bytes.size()), MPI_BYTE, to,
                      status_tag, group_.get(), &message.request),
            "MPI_Isend");
}

std::optional<StatusExchange::Message> MpiStatusExchange::receive() {
  int is_there = 0, count = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, status_tag, group_.get(), &is_there, &status), "MPI_Iprobe");
  if (!is_there) return std::nullopt;
  check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
  Message message{.from = status.MPI_SOURCE,
                  .bytes = std::vector<std::byte>(static_cast<std::size_t>(count))};
  check_mpi(MPI_Recv(message.bytes.data(), count, MPI_BYTE, status.MPI_SOURCE, status_tag,
                     group_.get(), MPI_STATUS_IGNORE),
            "MPI_Recv");
  ++messages_.received[static_cast<std::size_t>(message.from)];
  return message;
}

}  // namespace

std::unique_ptr<StatusExchange> make_status_exchange(MpiObjects& objects) {
  return std::make_unique<MpiStatusExchange>(objects.statuses, objects.status_messages);
}

void take_last_statuses(MpiObjects& objects) {
  if (objects.statuses.is_empty()) return;
  MpiSmallMessages& messages = objects.status_messages;
  const std::vector<std::int64_t> ones(messages.sent.size(), 1);
  std::vector<std::int64_t> expected(messages.sent.size());
  objects.all_collectives->execute(CollectiveCall::all_to_all(
      std::span<const std::int64_t>(messages.sent), ones, std::span(expected), ones));
  MpiStatusExchange exchange(objects.statuses, messages);
  while (messages.received != expected) (void)exchange.receive();
}

}  // namespace kolo
