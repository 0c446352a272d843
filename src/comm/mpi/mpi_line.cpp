#include "comm/mpi/mpi_line.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

// Of MPI's messages in the group's communicator, where collectives use 0.
constexpr int note_tag = 1;
constexpr int first_tag_of_bytes = 2;
constexpr std::size_t most_messages_at_once = 4;  // of one transfer

class MpiLine final : public TransferLine {
 public:
  MpiLine(MpiObjects& objects, std::int64_t largest_count);

  void post(int to, const TransferNote& note) override;
  [[nodiscard]] std::optional<Arrival> take() override;
  [[nodiscard]] std::unique_ptr<TransferMove> begin(const CollectiveCall& call,
                                                    const TransferNote& own,
                                                    const TransferNote& other) override;
  [[nodiscard]] bool is_silent() const override { return true; }

 private:
  void forget_sent();

  MpiObjects& objects_;
  std::int64_t largest_count_;
  std::uint64_t tags_ = 0;  // for bytes
};

// In messages of at most `largest_count` bytes (MPI-3 counts are int), some at a time.
class MpiMove final : public TransferMove {
 public:
  MpiMove(MPI_Comm communicator, const CollectiveCall& call, int tag, std::int64_t largest_count)
      : communicator_(communicator),
        peer_(call.peer),
        tag_(tag),
        largest_count_(static_cast<std::size_t>(largest_count)),
        is_send_(call.collective == Collective::send),
        data_(is_send_ ? static_cast<std::byte*>(const_cast<void*>(call.input.data))
                       : static_cast<std::byte*>(call.output.data)),
        left_(is_send_ ? call.input.bytes() : call.output.bytes()) {}

  [[nodiscard]] bool go_on() override;
  [[nodiscard]] bool is_done() const override { return left_ == 0 && requests_.empty(); }

 private:
  void begin_message();

  MPI_Comm communicator_;
  int peer_;
  int tag_;
  std::size_t largest_count_;
  bool is_send_;
  std::byte* data_;
  std::size_t left_;  // that MPI has not been given yet
  std::deque<MPI_Request> requests_;
};

int largest_tag() {
  void* value = nullptr;
  int is_set = 0;
  check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &is_set), "MPI_Comm_get_attr");
  constexpr int least_of_all_mpi = 32767;
  return is_set != 0 ? *static_cast<int*>(value) : least_of_all_mpi;
}

}  // namespace

MpiLine::MpiLine(MpiObjects& objects, std::int64_t largest_count)
    : objects_(objects),
      largest_count_(largest_count),
      tags_(static_cast<std::uint64_t>(largest_tag() - first_tag_of_bytes + 1)) {}

void MpiLine::forget_sent() {
  auto& pending = objects_.notes.pending;
  for (auto message = pending.begin(); message != pending.end();) {
    int is_done = 0;
    check_mpi(MPI_Test(&message->request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    message = is_done != 0 ? pending.erase(message) : std::next(message);
  }
}

void MpiLine::post(int to, const TransferNote& note) {
  auto& message = objects_.notes.pending.emplace_back();
  message.to = to;
  const auto bytes = std::as_bytes(std::span(&note, 1));
  message.bytes.assign(bytes.begin(), bytes.end());
  check_mpi(MPI_Isend(message.bytes.data(), narrow<int>(message.bytes.size()), MPI_BYTE, to,
                      note_tag, objects_.all.get(), &message.request),
            "MPI_Isend");
}

std::optional<TransferLine::Arrival> MpiLine::take() {
  forget_sent();
  int is_there = 0;
  MPI_Status status;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, note_tag, objects_.all.get(), &is_there, &status),
            "MPI_Iprobe");
  if (is_there == 0) return std::nullopt;
  Arrival arrival{.from = status.MPI_SOURCE, .note = {}};
  check_mpi(MPI_Recv(&arrival.note, sizeof(TransferNote), MPI_BYTE, status.MPI_SOURCE, note_tag,
                     objects_.all.get(), MPI_STATUS_IGNORE),
            "MPI_Recv");
  return arrival;
}

std::unique_ptr<TransferMove> MpiLine::begin(const CollectiveCall& call, const TransferNote& own,
                                             const TransferNote& other) {
  const auto number = (call.collective == Collective::send ? own : other).call.number;
  const auto tag = first_tag_of_bytes + narrow<int>(number % tags_);
  return std::make_unique<MpiMove>(objects_.all.get(), call, tag, largest_count_);
}

bool MpiMove::go_on() {
  bool has_progress = false;
  while (!requests_.empty()) {
    int is_done = 0;
    check_mpi(MPI_Test(&requests_.front(), &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_done == 0) break;
    requests_.pop_front();
    has_progress = true;
  }
  while (left_ > 0 && requests_.size() < most_messages_at_once) {
    begin_message();
    has_progress = true;
  }
  return has_progress;
}

void MpiMove::begin_message() {
  const auto bytes = std::min(left_, largest_count_);
  const int count = narrow<int>(bytes);
  MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
  if (is_send_)
    check_mpi(MPI_Isend(data_, count, MPI_BYTE, peer_, tag_, communicator_, &request), "MPI_Isend");
  else
    check_mpi(MPI_Irecv(data_, count, MPI_BYTE, peer_, tag_, communicator_, &request), "MPI_Irecv");
  data_ += bytes;
  left_ -= bytes;
}

std::shared_ptr<TransferLine> make_mpi_line(MpiObjects& objects, std::int64_t largest_count) {
  return std::make_shared<MpiLine>(objects, largest_count);
}

}  // namespace kolo
