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

// Roles of ranks: those that train, how they agree, and what those that compute send to them.
namespace kolo::online {

// Ranks that train: all, a list, or every so many-th. The others hand their samples to one of those
// that do, and get the weights.
struct Roles {
  std::vector<int> trainers;  // ascending
  std::vector<int> clients;   // whose samples this rank takes, besides its own
  int trainer = 0;            // who takes this rank's samples
  bool trains = true;         // this rank
  bool computes = true;       // this rank; one that trains apart doesn't
  bool are_all = true;        // every rank trains

  // InputError for ranks that are not there.
  [[nodiscard]] static Roles of(const OnlineTrainingConfig& training, int rank, int ranks);
};

// Does what each rank does by itself, at the beginning of a collective call. Where it fails on one
// rank, it is an Error on all, and nobody waits for a rank that doesn't come: its own there, and a
// CommunicationError with its words on the others. Costs an all-reduce of eight bytes.
void agree(const Communicator& ranks, const Call& call, const std::function<void()>& local);

// A message. Samples come with their shapes; what a request needs is in `text`.
struct Letter {
  enum class Kind : std::int64_t { samples, refresh, save, restore, end };

  Kind kind = Kind::samples;
  std::int64_t number = 0;  // of samples; of save and restore the tag
  SampleShapes shapes;
  std::string text;
  std::vector<std::byte> records;
};

// A letter's bytes, and back. Error for what is none.
[[nodiscard]] std::vector<std::byte> to_bytes(const Letter& letter);
[[nodiscard]] Letter letter_from(std::span<const std::byte> bytes);

// Tags of messages between two ranks. Messages with bytes take the next tag as well.
enum MailTag : int { letters_tag = 0, staged_tag = 2, answers_tag = 4, weights_tag = 6 };

// Bytes whose number the other rank doesn't know; both wait for each other.
void send_bytes(const Communicator& ranks, std::span<const std::byte> bytes, int to, MailTag tag);
[[nodiscard]] std::vector<std::byte> receive_bytes(const Communicator& ranks, int from,
                                                   MailTag tag);

// Messages from one rank to its trainer: never waits, unless it is asked to.
class Outbox {
 public:
  Outbox(Communicator ranks, int trainer) : ranks_(std::move(ranks)), trainer_(trainer) {}

  // Samples that were sent and not yet taken.
  [[nodiscard]] std::int64_t samples_under_way();
  void send(const Letter& letter);
  // Until all was taken. CommunicationError where the trainer has left.
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
  std::deque<Sent> sent_;  // the oldest first
};

// Messages of one rank to this one, in its order. The next letter is on its way only once the one
// before was taken: who has no room leaves it where it is, and its sender notices.
class Inbox {
 public:
  Inbox(Communicator ranks, int sender) : ranks_(std::move(ranks)), sender_(sender) {}

  // The next letter, where it is here; stays here until drop(). Never waits.
  [[nodiscard]] Letter* look();
  void drop();
  [[nodiscard]] int sender() const { return sender_; }

 private:
  Communicator ranks_;
  int sender_;
  std::array<std::int64_t, 1> length_{};
  std::vector<std::byte> bytes_;
  std::optional<Work> of_length_, of_bytes_;
  std::optional<Letter> letter_;
};

}  // namespace kolo::online
