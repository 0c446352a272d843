#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

// Whether a dense tensor has no infinity and nothing that is not a number; integers are finite. At
// the speed of memory.
[[nodiscard]] bool is_finite(const torch::Tensor& tensor);

// Whether all ranks' gradients are finite: no infinity, nothing that is not a number. What one rank
// sees all ranks are told, so that they decide alike. Collective; one pass over the arena's
// gradients at the speed of memory, and one number travels.
[[nodiscard]] bool all_finite(const Communicator& communicator, const ParameterArena& arena);

// Decides for every step whether its gradients may be used.
//
// When to ask: after the gradients are averaged and before the optimizer uses them. An all-reduce
// brings one rank's NaN to all, but reduce-scatter (a sharded optimizer) only to the rank that owns
// it, and a compressed average may overflow by itself. Asked before averaging (in the accumulation
// of several backward passes, say) the message names the ranks it began on; afterwards, those where
// it has arrived.
class FiniteCheck {
 public:
  // Skips so many steps one after another at most, on every rank; then, or at once where that is 0,
  // it stops with an Error: when the parameters themselves are not finite, no step will ever be.
  FiniteCheck(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
              std::int64_t most_skipped_in_a_row = 0);

  // Collective; the same answer on every rank. True: make the step. False: leave it out. Error,
  // with the same message everywhere, where gradients are not finite and enough steps in a row were
  // skipped; it names parameters and ranks. `step` is for the message.
  // `loss`, the same on all ranks, has to be finite too: some losses have finite gradients where
  // they are not (that of an absolute error is a sign).
  [[nodiscard]] bool may_step(std::int64_t step, double loss = 0);

  // Counts a step about which all ranks have decided alike, with the same Error. Collective where
  // it was not finite. The message names what is in the gradients now.
  void note(std::int64_t step, bool is_finite, double loss = 0);

 private:
  [[nodiscard]] std::string problem(double loss) const;

  Communicator communicator_;
  std::shared_ptr<const ParameterArena> arena_;
  std::int64_t most_in_a_row_;
  std::int64_t in_a_row_ = 0;
};

// A checksum of a tensor's bits in the order of its elements, the same on every device. Of tensors
// of one type and size, those of which one element of 32 bits or less differs have different ones,
// others the same with a chance of about 2^-64. Tensors of the same values differ when one has -0
// for 0.
[[nodiscard]] std::uint64_t checksum_of(const torch::Tensor& tensor);

// Finds replicas that have drifted apart: every few steps the ranks compare checksums of their
// parameters. In the good case that is checksum_of() all of them and an all-gather of 16 bytes.
// Ranks that have joined are left out.
//
// Parameters only: buffers such as running means differ between ranks in good order. It keeps the
// tensors' handles, so what optimizers and checkpoints do to them in place is seen; make it after
// the arena, which moves the parameters.
class ReplicaCheck {
 public:
  // Error when every_steps is below 1.
  ReplicaCheck(Communicator communicator, const ParameterArena& arena, std::int64_t every_steps);

  // Compares when `step`, counted from 1 and the same on all ranks, is a multiple of every_steps.
  void after_step(std::int64_t step) const;

  // Compares now. Collective. Error on every rank, with the same message, when replicas differ: it
  // names the parameters and, of each, the ranks that differ from the majority (from rank 0, where
  // there is none). `when`, for example "after step 200", is put into it.
  void compare(const std::string& when) const;

 private:
  [[noreturn]] void report(const std::vector<std::int64_t>& checksums,
                           const std::vector<std::size_t>& present, const std::string& when) const;

  Communicator communicator_;
  std::int64_t every_steps_ = 1;
  std::vector<NamedTensor> parameters_;
};

}  // namespace kolo
