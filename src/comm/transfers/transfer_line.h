#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kolo/comm/collective_call.h"

namespace kolo {

// The bytes of one transfer on their way, once both ends know what the other has asked for.
class TransferMove {
 public:
  virtual ~TransferMove() = default;

  // Moves what can be moved now, for some milliseconds at most. Returns whether anything was.
  [[nodiscard]] virtual bool go_on() = 0;
  // The buffer is the caller's again.
  [[nodiscard]] virtual bool is_done() const = 0;
};

// One way for calls and bytes to other ranks of a group. Used by one thread at a time; nothing here
// ever blocks. Ranks are those of the group. A line outlives its moves.
class TransferLine {
 public:
  struct Arrival {
    int from = 0;
    CallHeader call;
  };

  virtual ~TransferLine() = default;

  // Tells a rank what this one has asked for; calls to one rank arrive in order.
  virtual void post(int to, const CallHeader& call) = 0;
  // The next call of another rank that has arrived.
  [[nodiscard]] virtual std::optional<Arrival> take() = 0;

  // Begins to move the bytes; there is at least one. `other`: the other rank's call.
  [[nodiscard]] virtual std::unique_ptr<TransferMove> begin(const CollectiveCall& call,
                                                            const CallHeader& other) = 0;

  // Reason why nothing more comes from a rank, beyond what has arrived: "rank 3 has left"; empty:
  // none is known.
  [[nodiscard]] virtual std::string obstacle(int /*rank*/) { return {}; }

  // Whether take() must be asked again and again, because nothing rings when a call comes.
  [[nodiscard]] virtual bool is_silent() const = 0;
};

}  // namespace kolo
