#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

// The same on every rank.
struct ReducerOptions {
  // false: communication begins only in finish() or the first wait(), and grad() is this rank's own
  // until then, to be read and changed. Communication also begins there where MPI grants less than
  // the thread level `multiple`: there is one order of calls for everything then.
  bool overlap = true;

  // false: every rank keeps its own gradients; everything else goes on as usual. For measuring what
  // communication costs.
  bool communicate = true;

  // Parameters may take no part in a rank's loss. They count as zero there, and a parameter that no
  // rank has used keeps the grad() it had (most often none, so that optimizers skip it, those over
  // an arena too; wait() for a bucket that has one waits for all buckets). Costs a byte a parameter
  // in the message of each step's end; buckets with an unused parameter, and those after them,
  // begin their reduction after backward.
  bool unused_parameters = false;

  // Beside unused_parameters: each rank uses the same parameters in all steps. They are noted in
  // the first one; later steps send no bytes for them and overlap as if all were used. An Error on
  // all ranks names the parameters of a step in which that does not hold.
  bool static_graph = false;

  // After the first step the buckets are cut anew, in the order in which gradients became ready (by
  // their mean place over the ranks). Costs a copy of parameters and gradients in that step, during
  // which as much memory again. By default only where the reducer has made its arena itself: state
  // laid out like an arena (ArenaOptimizer) would no longer fit. Waits for a step in which no rank
  // has joined.
  std::optional<bool> rebuild_buckets = std::nullopt;

  // How buckets are averaged instead of by all-reduce. It is called on one rank too.
  std::shared_ptr<GradientHook> hook = nullptr;

  // For the reducer that makes its arena itself: its buckets, and the parameters whose gradients
  // are sparse, by name. Those of Embedding and EmbeddingBag modules with sparse(true) are found.
  BucketLimits buckets = {};
  std::vector<std::string> sparse_parameters = {};
};

// Counts since the reducer was made or asked to reset.
struct ReducerStatistics {
  std::int64_t steps = 0;
  std::int64_t bytes = 0;  // of gradients, reduced
  // That wait() and finish() blocked, or on a device its stream: communication that backward did
  // not hide.
  double exposed_seconds = 0;
  std::int64_t hook_bytes = 0;  // that the hook has sent, by its own count
};

// Averages gradients over the ranks while backward still runs. It attaches to the parameters of an
// arena; from then on every backward() moves each gradient into the arena and starts the all-reduce
// of a bucket ("bucket 0", "bucket 1", ... for listeners), on the communication thread, as soon as
// its last gradient is there and all buckets before it have been started (so that all ranks start
// them in the same order). From backward() until finish(), or wait() for its bucket, a parameter's
// grad() is a placeholder: an operation of LibTorch on it, in a clip_grad_norm_() or a step of
// another optimizer, is an Error that says so, on every rank that does it; assigning another tensor
// is an Error in finish(). Afterwards it is the view in the arena.
// Zero gradients as without kolo, by zero_grad() of whatever optimizer or module.
//
// Gradients travel in an order of their own (ParameterArena::gradient_communicator), so the program
// may call other collectives between backward() and finish(), forward and backward too.
//
// A step has one backward() or more, on every rank equally many. In the scope of no_sync() they
// only add to this rank's gradients. Without it, what comes for a bucket that has been started is
// averaged after all others, and added (the same bytes again), and in later steps communication
// begins only after backward, as without `overlap`. Gradients that are zeroed between two passes
// don't count. A step begins with gradients undefined (fastest: no addition and no zero-filling) or
// with the views; gradients that were left from a step before are added to, like everywhere.
//
// The module may be loaded, or its parameters' data set, between steps: they are taken back into
// the arena. One that has changed otherwise (see ParameterArena::take_back_parameters()) is an
// Error.
//
// Parameters whose gradients are sparse lie outside the arena. Each is averaged after the last
// bucket ("sparse 0", ...) by an all-gather of the rows that the ranks have, and stays sparse.
//
// A step that goes wrong on one rank (a gradient is missing, parameters are frozen on some ranks
// only) is an Error on all of them, in wait() or finish(), that says for each such rank what is
// wrong; other ranks' parameters have not been touched unless they were updated bucket by bucket.
// A parameter has one reducer at a time: Error for a second one (a second optimizer of one network,
// two networks that share a part) while the first one lives.
//
// A parameter that is frozen between steps keeps the grad() it has, and one that is thawed again is
// averaged again; one that was frozen when the reducer was made can't be thawed (Error).
//
// Calls come from the thread that calls backward(). The destructor does not communicate.
class GradientReducer {
 public:
  // Scope that ends when the last copy goes.
  using NoSync = std::shared_ptr<void>;

  GradientReducer(const Communicator& communicator, std::shared_ptr<ParameterArena> arena,
                  const ReducerOptions& options = {});
  // Makes the arena of a module's trainable parameters. Collective.
  GradientReducer(const Communicator& communicator, const torch::nn::Module& module,
                  const ReducerOptions& options = {});
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer();

  // While the result lives, backward() only adds to this rank's gradients; the next one outside, or
  // finish(), averages the sum. Every rank does as many steps; passes within one may differ.
  [[nodiscard]] NoSync no_sync();

  // Blocks until a bucket's gradients are averaged. Error when backward has not produced all of its
  // gradients: it names the parameters.
  void wait(std::size_t bucket);

  // wait() for all buckets, and ready for the next backward().
  void finish();

  // Whether finish() has made averages that no optimizer has taken, and no backward() was since.
  [[nodiscard]] bool has_averages() const;
  // For optimizers, before they step with what finish() has made: finish() itself where it has not
  // been called. Otherwise what was done since counts: a parameter whose grad() is gone takes no
  // part in the step (ParameterArena::takes_part), and parameters that have got other memory are
  // taken back. One small collective then; Error on all ranks where they have discarded different
  // gradients.
  void take_averages();

  // The learning rates that this rank steps with, one a group of the optimizer: compared by the
  // next message of a step's end. Error on all ranks where they differ.
  void set_rates(std::vector<double> rates);

  // Undefines all gradients, so that the next backward() writes instead of adding, or makes them
  // zero.
  void clear_gradients(bool set_to_none = true);

  [[nodiscard]] const std::shared_ptr<ParameterArena>& arena() const;

  [[nodiscard]] ReducerStatistics statistics() const;
  void reset_statistics();

 private:
  class State;
  std::shared_ptr<State>
      state_;  // the hooks on the parameters, which can't be taken off, hold it weakly
};

}  // namespace kolo
