#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/online/online_config.h"
#include "online/samples.h"

// Roles of ranks: which ranks train, how ranks agree, and what computing ranks send to trainers.
namespace kolo::online {

// Training ranks: all, a list, or every so many-th. Each other rank sends its samples to one of
// them and receives the weights.
struct Roles {
  std::vector<int> trainers;  // ascending
  std::vector<int> clients;   // ranks whose samples this rank takes
  int trainer = 0;            // rank that takes this rank's samples
  bool trains = true;         // this rank trains
  bool computes = true;       // this rank calls push(), tick() and infer()
  bool are_all = true;        // every rank trains

  // InputError for ranks that don't exist.
  [[nodiscard]] static Roles of(const OnlineTrainingConfig& training, int rank, int ranks);
};

// Runs local work at the beginning of a collective call. If it fails on one rank all ranks throw,
// so that none waits for it: its own exception there, a CommunicationError with its message on the
// others. Costs an all-reduce of eight bytes.
void agree(const Communicator& ranks, const Call& call, const std::function<void()>& local);

// InputError on all ranks, with two that differ, unless all have the same text of an argument.
// Collective, for calls that are rare.
void require_same(const Communicator& ranks, const Call& call, std::string_view argument,
                  std::string_view text);

// Message to a trainer: samples with their shapes, or a request with its folder in `text`.
struct Letter {
  enum class Kind : std::int64_t { samples, refresh, save, restore, end };

  Kind kind = Kind::samples;
  std::int64_t number = 0;  // of samples; for save and restore the tag
  SampleShapes shapes;
  std::string text;
  std::vector<std::byte> packed;
};

// Serialization of a letter. letter_from() throws Error for other bytes.
[[nodiscard]] std::vector<std::byte> to_bytes(const Letter& letter);
[[nodiscard]] Letter letter_from(std::span<const std::byte> bytes);

// Tags of messages between two ranks. The bytes after a length travel with the next tag.
enum MailTag : int { letters_tag = 0, samples_tag = 2, answers_tag = 4, weights_tag = 6 };

// Blocking transfer of bytes whose number the receiver doesn't know.
void send_bytes(const Communicator& ranks, std::span<const std::byte> bytes, int to, MailTag tag);
[[nodiscard]] std::vector<std::byte> receive_bytes(const Communicator& ranks, int from,
                                                   MailTag tag);

// Asynchronous messages from one rank to its trainer.
class Outbox {
 public:
  Outbox(Communicator ranks, int trainer) : ranks_(std::move(ranks)), trainer_(trainer) {}

  // Number of samples that were sent but not yet received.
  [[nodiscard]] std::int64_t samples_under_way();
  void send(const Letter& letter);
  // Waits until all messages were received. CommunicationError if the trainer has left.
  void wait();

 private:
  struct Sent {
    std::int64_t samples = 0;
    std::array<std::int64_t, 1> length{};
    std::vector<std::byte> bytes;
    Work of_length, of_bytes;
  };
  void forget_taken();

  Communicator ranks_;
  int trainer_;
  std::deque<Sent> sent_;  // oldest first
};

// Messages from one rank to this one, in order. The next letter is received only after drop(), so a
// trainer without room leaves the letter here and its sender notices.
class Inbox {
 public:
  Inbox(Communicator ranks, int sender) : ranks_(std::move(ranks)), sender_(sender) {}

  // Returns the next letter, or null if it has not arrived. Never waits.
  [[nodiscard]] Letter* look();
  void drop();

 private:
  Communicator ranks_;
  int sender_;
  std::array<std::int64_t, 1> length_{};
  std::vector<std::byte> bytes_;
  std::optional<Work> of_length_, of_bytes_;
  std::optional<Letter> letter_;
};

}  // namespace kolo::online
