#pragma once

#include <cstdint>
#include <memory>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

struct ReducerOptions {
  bool overlap = true;  // false: communication begins only in finish() or the first wait()
};

// What the reducer has done since it was made or asked to reset.
struct ReducerStatistics {
  std::int64_t steps = 0;
  std::int64_t bytes = 0;  // of gradients, reduced
  double exposed_seconds =
      0;  // that wait() and finish() blocked: communication that backward did not hide
};

// Averages gradients over the ranks while backward still runs. It attaches to the parameters of an
// arena; from then on every backward() moves each gradient into the arena and starts the all-reduce
// of a bucket, on the communication thread, as soon as its last gradient is there and all buckets
// before it have been started (so that all ranks start them in the same order). Afterwards the
// parameters' grad() is the view in the arena; call finish(), or wait() for the buckets one by one,
// before using it.
//
// One backward() a step. A step begins with gradients undefined (fastest: no addition and no
// zero-filling) or with the views. Calls come from the thread that calls backward(). The destructor
// does not communicate.
class GradientReducer {
 public:
  GradientReducer(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
                  const ReducerOptions& options = {});
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer();

  // Blocks until a bucket's gradients are averaged. Error when backward has not produced all of its
  // gradients: it names the parameters.
  void wait(std::size_t bucket);

  // wait() for all buckets, and ready for the next backward().
  void finish();

  // Undefines all gradients, so that the next backward() writes instead of adding.
  void clear_gradients();

  [[nodiscard]] ReducerStatistics statistics() const;
  void reset_statistics();

 private:
  class State;
  std::shared_ptr<State>
      state_;  // the hooks on the parameters, which can't be taken off, hold it weakly
};

}  // namespace kolo
