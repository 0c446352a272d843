#include "comm/transfers/node_line.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace kolo {

namespace {

constexpr std::size_t most_slots_per_transfer =
    4;  // a receiver that is stopped leaves the others some
constexpr std::chrono::milliseconds between_looks_at_processes{500};

}  // namespace

NodeLine::NodeLine(int local_rank, NodeLineMemory memory)
    : local_rank_(local_rank),
      memory_(std::move(memory)),
      waiting_(memory_.ranks.size()),
      is_gone_(memory_.ranks.size()) {}

int NodeLine::local(int rank) const {
  const auto found = std::find(memory_.ranks.begin(), memory_.ranks.end(), rank);
  return static_cast<int>(found - memory_.ranks.begin());
}

bool NodeLine::has_room(int local_rank) const {
  return waiting_[static_cast<std::size_t>(local_rank)].empty() &&
         mailbox(local_rank).ring_from(local_rank_).has_room();
}

void NodeLine::send(int local_rank, const TransferNote& note) {
  if (!has_room(local_rank)) return waiting_[static_cast<std::size_t>(local_rank)].push_back(note);
  mailbox(local_rank).ring_from(local_rank_).write(note);
  ring(local_rank);
}

void NodeLine::send_waiting(int local_rank) {
  auto& waiting = waiting_[static_cast<std::size_t>(local_rank)];
  NoteRing& ring_there = mailbox(local_rank).ring_from(local_rank_);
  bool has_sent = false;
  while (!waiting.empty() && ring_there.has_room()) {
    ring_there.write(waiting.front());
    waiting.pop_front();
    has_sent = true;
  }
  if (has_sent) ring(local_rank);
}

std::optional<TransferLine::Arrival> NodeLine::take() {
  for (int peer = 0; peer < static_cast<int>(memory_.ranks.size()); ++peer) {
    if (peer == local_rank_) continue;
    send_waiting(peer);
    TransferNote note;
    bool was_full = false;
    while (mailbox(local_rank_).ring_from(peer).take(note, was_full)) {
      if (was_full) ring(peer);
      if (note.call.collective != Collective::none)
        return Arrival{memory_.ranks[static_cast<std::size_t>(peer)], note.call};
      take_piece(peer, note);
    }
  }
  return std::nullopt;
}

void NodeLine::take_piece(int local_rank, const TransferNote& piece) {
  const auto receiving = pieces_.find({local_rank, piece.number});
  if (receiving != pieces_.end())
    receiving->second.push_back(piece);
  else  // of a transfer that has failed here
    mailbox(local_rank).is_full(piece.slot).store(0, std::memory_order_release);
}

std::string NodeLine::obstacle(int rank) {
  if (const AbortCell& abort = *memory_.control.abort; abort.is_given_up()) {
    const auto reason = abort.words();
    return fmt::format("another rank gave up{}{}", reason.empty() ? "" : ": ", reason);
  }
  if (memory_.control.cells[static_cast<std::size_t>(local_rank_)]->has_left.load() != 0)
    return "this rank has left";
  const auto index = static_cast<std::size_t>(local(rank));
  const auto now = std::chrono::steady_clock::now();
  if (now >= next_look_at_processes_) {
    next_look_at_processes_ = now + between_looks_at_processes;
    for (std::size_t each = 0; each < is_gone_.size(); ++each)
      is_gone_[each] = is_gone(*memory_.control.cells[each]);
  }
  const RankCell& cell = *memory_.control.cells[index];
  if (!is_gone_[index] && cell.has_left.load(std::memory_order_seq_cst) == 0) return {};
  return fmt::format("rank {} {}", cell.job_rank, reason_of_absence(cell));
}

class NodeLine::Sending final : public TransferMove {
 public:
  Sending(NodeLine& line, int to, const CollectiveCall& call)
      : line_(line),
        to_(to),
        number_(call.number),
        data_(static_cast<const std::byte*>(call.input.data)),
        left_(call.input.bytes()) {}

  [[nodiscard]] bool go_on() override {
    const NodeMailbox& own = line_.mailbox(line_.local_rank_);
    bool has_progress = false;
    std::erase_if(used_, [&](std::size_t slot) { return !is_full(own, slot); });
    for (std::size_t slot = 0; slot < NodeMailbox::slots; ++slot) {
      if (left_ == 0 || used_.size() == most_slots_per_transfer || !line_.has_room(to_)) break;
      if (is_full(own, slot)) continue;
      send_piece(own, slot);
      has_progress = true;
    }
    return has_progress;
  }
  [[nodiscard]] bool is_done() const override { return left_ == 0; }

 private:
  [[nodiscard]] static bool is_full(const NodeMailbox& own, std::size_t slot) {
    return own.is_full(slot).load(std::memory_order_acquire) != 0;
  }

  void send_piece(const NodeMailbox& own, std::size_t slot) {
    const TransferNote note{.slot = static_cast<std::uint32_t>(slot),
                            .number = number_,
                            .bytes = std::min(left_, own.slot_bytes())};
    std::memcpy(own.slot(slot), data_, note.bytes);
    own.is_full(slot).store(1, std::memory_order_relaxed);
    used_.push_back(slot);
    data_ += note.bytes;
    left_ -= note.bytes;
    line_.send(to_, note);
  }

  NodeLine& line_;
  int to_;
  std::uint64_t number_;
  const std::byte* data_;
  std::size_t left_;
  std::vector<std::size_t> used_;  // slots that the receiver had not emptied
};

class NodeLine::Receiving final : public TransferMove {
 public:
  Receiving(NodeLine& line, Id id, const CollectiveCall& call)
      : line_(line),
        id_(id),
        data_(static_cast<std::byte*>(call.output.data)),
        left_(call.output.bytes()) {
    line_.pieces_[id_];
  }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;
  ~Receiving() override { line_.pieces_.erase(id_); }

  [[nodiscard]] bool go_on() override {
    auto& pieces = line_.pieces_[id_];
    const NodeMailbox& theirs = line_.mailbox(id_.first);
    const bool has_progress = !pieces.empty();
    while (!pieces.empty()) {
      const TransferNote& piece = pieces.front();
      std::memcpy(data_, theirs.slot(piece.slot), piece.bytes);
      theirs.is_full(piece.slot).store(0, std::memory_order_release);
      data_ += piece.bytes;
      left_ -= piece.bytes;
      pieces.pop_front();
    }
    if (has_progress) line_.ring(id_.first);
    return has_progress;
  }
  [[nodiscard]] bool is_done() const override { return left_ == 0; }

 private:
  NodeLine& line_;
  Id id_;
  std::byte* data_;
  std::size_t left_;
};

std::unique_ptr<TransferMove> NodeLine::begin(const CollectiveCall& call, const CallHeader& other) {
  const int peer = local(call.peer);
  if (call.collective == Collective::send) return std::make_unique<Sending>(*this, peer, call);
  return std::make_unique<Receiving>(*this, Id{peer, other.number}, call);
}

}  // namespace kolo
