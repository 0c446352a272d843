#pragma once

#include <cstdint>
#include <memory>

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

enum class NonFinite : std::uint8_t {
  stop,  // an Error on every rank
  skip,  // the step is left out, on every rank
};

struct FiniteCheckOptions {
  NonFinite policy = NonFinite::stop;
  // Steps skipped one after another before it stops all the same: when the parameters themselves
  // are not finite, no step will ever be.
  std::int64_t most_in_a_row = 20;
};

// Decides for every step whether its gradients may be used.
//
// When to ask: after the gradients are averaged and before the optimizer uses them. An all-reduce
// brings one rank's NaN to all, but reduce-scatter (a sharded optimizer) only to the rank that owns
// it, and a compressed average may overflow by itself. Asked before averaging (in the accumulation
// of several backward passes, say) the message names the ranks it began on; afterwards, those where
// it has arrived.
class FiniteCheck {
 public:
  FiniteCheck(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
              const FiniteCheckOptions& options = {});

  // Collective; the same answer on every rank. True: make the step. False: leave it out. Error,
  // with the same message everywhere: gradients are not finite and the policy is to stop, or too
  // many steps in a row were skipped; it names parameters and ranks. `step` is for the message.
  // `loss`, the same on all ranks, has to be finite too: some losses have finite gradients where
  // they are not (that of an absolute error is a sign).
  [[nodiscard]] bool may_step(std::int64_t step, double loss = 0);

  [[nodiscard]] std::int64_t skipped_steps() const { return skipped_; }

 private:
  [[nodiscard]] std::string problem(double loss) const;
  [[nodiscard]] std::string where() const;

  Communicator communicator_;
  std::shared_ptr<const ParameterArena> arena_;
  FiniteCheckOptions options_;
  std::int64_t skipped_ = 0;
  std::int64_t in_a_row_ = 0;
};

}  // namespace kolo
