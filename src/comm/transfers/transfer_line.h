#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "kolo/comm/collective_call.h"

namespace kolo {

// Note of one rank to another about a transfer; sent as bytes.
struct TransferNote {
  enum class Kind : std::uint32_t {
    call,   // the rank has asked for it
    piece,  // some of the bytes lie in the sender's shared memory
  };

  CallHeader call;
  Kind kind = Kind::call;
  // Set for a piece.
  std::uint32_t slot = 0;
  std::uint64_t number = 0;  // CallHeader::number on the sending rank
  std::uint64_t bytes = 0;
};
static_assert(std::has_unique_object_representations_v<TransferNote>,
              "nothing but values, without gaps: notes are sent as bytes");

// The bytes of one transfer on their way, once both ends know what the other has asked for.
class TransferMove {
 public:
  virtual ~TransferMove() = default;

  // Moves what can be moved now, for some milliseconds at most. Returns whether anything was.
  [[nodiscard]] virtual bool go_on() = 0;
  // The buffer is the caller's again.
  [[nodiscard]] virtual bool is_done() const = 0;
};

// One way for notes and bytes to other ranks of a group. Used by one thread at a time; nothing here
// ever blocks. Ranks are those of the group. A line outlives its moves.
class TransferLine {
 public:
  struct Arrival {
    int from = 0;
    CallHeader call;
  };

  virtual ~TransferLine() = default;

  // Notes to one rank arrive in order.
  virtual void post(int to, const TransferNote& note) = 0;
  // The next call of another rank that has arrived.
  [[nodiscard]] virtual std::optional<Arrival> take() = 0;

  // Begins to move the bytes; there is at least one. `other`: the other rank's call.
  [[nodiscard]] virtual std::unique_ptr<TransferMove> begin(const CollectiveCall& call,
                                                            const CallHeader& other) = 0;

  // Reason why nothing more comes from a rank, beyond what has arrived: "rank 3 has left"; empty:
  // none is known.
  [[nodiscard]] virtual std::string obstacle(int /*rank*/) { return {}; }

  // Whether take() must be asked again and again, because nothing rings when a note comes.
  [[nodiscard]] virtual bool is_silent() const = 0;
};

}  // namespace kolo
