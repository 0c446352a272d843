#include "comm/mpi/mpi_keeping.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr int largest_tag = 32767;                            // that every MPI has
constexpr std::size_t most_messages_at_once = 4;              // of one transfer
constexpr std::int64_t copied_bytes = std::int64_t{1} << 20;  // in one message

// Moves bytes in messages of at most `largest_count` bytes (MPI-3 counts are int), some at a time.
// In a session a move may be given up, but not taken back from MPI: there bytes go through memory
// of their own, which is left to MPI then.
class MpiMove final : public TransferMove {
 public:
  MpiMove(MPI_Comm communicator, const CollectiveCall& call, int tag, std::int64_t largest_count,
          bool may_be_given_up)
      : communicator_(communicator),
        peer_(call.peer),
        tag_(tag),
        largest_count_(static_cast<std::size_t>(
            may_be_given_up ? std::min(largest_count, copied_bytes) : largest_count)),
        may_be_given_up_(may_be_given_up),
        is_send_(call.collective == Collective::send),
        data_(is_send_ ? static_cast<std::byte*>(const_cast<void*>(call.input.data))
                       : static_cast<std::byte*>(call.output.data)),
        left_(is_send_ ? call.input.bytes() : call.output.bytes()) {}
  MpiMove(const MpiMove&) = delete;
  MpiMove& operator=(const MpiMove&) = delete;
  ~MpiMove() override {
    for (Message& message : messages_) (void)message.copy.release();  // they are MPI's now
  }

  [[nodiscard]] bool go_on() override {
    bool has_progress = false;
    while (!messages_.empty()) {
      Message& message = messages_.front();
      int is_done = 0;
      check_mpi(MPI_Test(&message.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
      if (is_done == 0) break;
      if (message.copy && !is_send_) std::memcpy(message.data, message.copy.get(), message.bytes);
      messages_.pop_front();
      has_progress = true;
    }
    while (left_ > 0 && messages_.size() < most_messages_at_once) {
      begin_message();
      has_progress = true;
    }
    return has_progress;
  }
  [[nodiscard]] bool is_done() const override { return left_ == 0 && messages_.empty(); }

 private:
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::unique_ptr<std::byte[]> copy;  // none: MPI has the buffer itself
  };

  void begin_message() {
    Message& message = messages_.emplace_back();
    message.data = data_;
    message.bytes = std::min(left_, largest_count_);
    if (may_be_given_up_) {
      message.copy = std::make_unique_for_overwrite<std::byte[]>(message.bytes);
      if (is_send_) std::memcpy(message.copy.get(), message.data, message.bytes);
    }
    std::byte* const data = message.copy ? message.copy.get() : message.data;
    const int count = narrow<int>(message.bytes);
    if (is_send_) {
      check_mpi(MPI_Isend(data, count, MPI_BYTE, peer_, tag_, communicator_, &message.request),
                "MPI_Isend");
    } else {
      check_mpi(MPI_Irecv(data, count, MPI_BYTE, peer_, tag_, communicator_, &message.request),
                "MPI_Irecv");
    }
    data_ += message.bytes;
    left_ -= message.bytes;
  }

  MPI_Comm communicator_;
  int peer_;
  int tag_;
  std::size_t largest_count_;
  bool may_be_given_up_;
  bool is_send_;
  std::byte* data_;
  std::size_t left_;  // that MPI has not been given yet
  std::deque<Message> messages_;
};

class MpiLine final : public TransferLine {
 public:
  MpiLine(MpiObjects& objects, std::int64_t largest_count, MpiKeeping& keeping)
      : objects_(objects), largest_count_(largest_count), keeping_(keeping) {}

  void post(int to, const CallHeader& call) override {
    objects_.calls.send(objects_.all, tag_of_calls, to, std::as_bytes(std::span(&call, 1)));
  }
  [[nodiscard]] std::optional<Arrival> take() override {
    objects_.calls.forget_sent();
    const auto message = take_message(objects_.all, tag_of_calls);
    if (!message) return std::nullopt;
    Arrival arrival{.from = message->from};
    std::memcpy(&arrival.call, message->bytes.data(), sizeof(arrival.call));
    return arrival;
  }
  [[nodiscard]] std::unique_ptr<TransferMove> begin(const CollectiveCall& call,
                                                    const CallHeader& other) override {
    const auto number = call.collective == Collective::send ? call.number : other.number;
    constexpr std::uint64_t tags = largest_tag - first_tag_of_bytes + 1;
    const auto tag = first_tag_of_bytes + narrow<int>(number % tags);
    return std::make_unique<MpiMove>(objects_.all.get(), call, tag, largest_count_,
                                     keeping_.rules().is_session);
  }
  [[nodiscard]] std::string obstacle(int /*rank*/) override {
    if (keeping_.rules().is_session) keeping_.hear();
    return keeping_.reason();
  }
  [[nodiscard]] bool is_silent() const override { return true; }

 private:
  MpiObjects& objects_;
  std::int64_t largest_count_;
  MpiKeeping& keeping_;
};

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

  void send(int to, std::span<const std::byte> bytes) override {
    if (messages_.forget_sent(to) >= most_pending_statuses) return;
    ++messages_.sent[static_cast<std::size_t>(to)];
    messages_.send(group_, status_tag, to, bytes);
  }
  [[nodiscard]] std::optional<Message> receive() override {
    auto message = take_message(group_, status_tag);
    if (message) ++messages_.received[static_cast<std::size_t>(message->from)];
    return message;
  }

 private:
  const MpiGroup& group_;
  MpiSmallMessages& messages_;
};

}  // namespace

std::shared_ptr<TransferLine> make_mpi_line(MpiObjects& objects, std::int64_t largest_count,
                                            MpiKeeping& keeping) {
  return std::make_shared<MpiLine>(objects, largest_count, keeping);
}

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
