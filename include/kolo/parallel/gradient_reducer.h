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

// Options of a reducer, the same on every rank.
struct ReducerOptions {
  // false: communication begins in finish() or the first wait(), and grad() is this rank's own
  // until then. The same holds where MPI grants less than the thread level `multiple`.
  bool overlap = true;

  // false: every rank keeps its own gradients, for measuring what communication costs.
  bool communicate = true;

  // false: each rank's buckets are left as they are, for an optimizer that averages them in its
  // update (BucketOptimizer::averages_in_update()); grad() then stays a placeholder until it is
  // zeroed. The ranks agree on each step all the same.
  bool averages = true;

  // Parameters may take no part in a rank's loss, and count as zero there. A parameter that no rank
  // has used keeps the grad() it had (most often none, so that optimizers skip it). Costs a byte a
  // parameter in each step's message; buckets with an unused parameter, and those after them, are
  // reduced after backward, and wait() for one waits for all.
  bool unused_parameters = false;

  // Beside unused_parameters: each rank uses the same parameters in all steps. The first step notes
  // them; later ones send no bytes for them and overlap as if all were used. Error on all ranks,
  // with the parameters, for a step in which that does not hold.
  bool static_graph = false;

  // Cuts the buckets anew after the first step, in the order in which gradients became ready (by
  // their mean position over the ranks). Costs a copy of parameters and gradients in that step. By
  // default only where the reducer has made its arena: state laid out like an arena
  // (ArenaOptimizer) would no longer fit. Postponed while any rank has joined.
  std::optional<bool> rebuild_buckets = std::nullopt;

  // Averages buckets instead of all-reduce; called on one rank too.
  std::shared_ptr<GradientHook> hook = nullptr;

  // For a reducer that makes its arena: bucket sizes, and names of parameters with sparse gradients
  // (those of Embedding and EmbeddingBag modules with sparse(true) are found).
  BucketLimits buckets = {};
  std::vector<std::string> sparse_parameters = {};
};

// Counts since the reducer was made or asked to reset.
struct ReducerStatistics {
  std::int64_t steps = 0;
  std::int64_t bytes = 0;  // of gradients, reduced
  // Time that wait() and finish() blocked, or on a device its stream: communication that backward
  // did not hide.
  double exposed_seconds = 0;
  std::int64_t hook_bytes = 0;  // sent by the hook, by its own count
};

// Averages gradients over the ranks while backward still runs. Each backward() moves gradients into
// an arena and starts a bucket's all-reduce ("bucket 0", "bucket 1", ... for listeners) on the
// communication thread as soon as its last gradient is there and all buckets before it have been
// started. From backward() until finish(), or wait() for its bucket, grad() is a placeholder:
// operations of LibTorch on it, as in clip_grad_norm_() or a step of another optimizer, are an
// Error, and so is another tensor in its place, in finish(). Afterwards it is the view in the
// arena. Zero gradients as without kolo, by zero_grad() of any optimizer or module.
//
// Gradients travel in an order of their own (ParameterArena::gradient_communicator): the program
// may call other collectives at any time.
//
// A step has one backward() or more, on every rank equally many. In the scope of no_sync() they
// only add to this rank's gradients. Otherwise gradients for a bucket that has been started are
// averaged after all others, and added (the same bytes again); in later steps communication begins
// only after backward. Gradients that are zeroed between two passes don't count; those left from a
// step before are added to. Undefined gradients are fastest to begin with.
//
// The module may be loaded, or its parameters' data set, between steps: they are taken back into
// the arena. Error for other changes (ParameterArena::take_back_parameters()).
//
// Parameters with sparse gradients lie outside the arena. Each is averaged after the last bucket
// ("sparse 0", ...) by an all-gather of the ranks' rows, and stays sparse.
//
// A step that goes wrong on one rank (a gradient is missing, parameters are frozen on some ranks
// only) is an Error on all, in wait() or finish(), which tells what is wrong on which rank. A
// parameter has one reducer at a time: Error for a second one while the first lives. A parameter
// that is frozen between steps keeps its grad(), and is averaged again when it is thawed; one that
// was frozen when the reducer was made can't be thawed (Error).
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

  // Blocks until a bucket's gradients are averaged. Error that names the parameters which backward
  // gave no gradient.
  void wait(std::size_t bucket);

  // wait() for all buckets, and ready for the next backward().
  void finish();

  // Whether finish() has made averages that no optimizer has taken, and no backward() was since.
  [[nodiscard]] bool has_averages() const;
  // For optimizers, before a step: finish() where it has not been called. Otherwise a parameter
  // whose grad() has gone since takes no part in the step (ParameterArena::takes_part), and
  // parameters in other memory are taken back: one small collective, and an Error on all ranks
  // where they have discarded different gradients.
  void take_averages();

  // Sets the learning rates that this rank steps with, one a group of the optimizer. Error on all
  // ranks at the step's end where they differ.
  void set_rates(std::vector<double> rates);

  // Undefines all gradients, so that the next backward() writes instead of adding, or zeroes them.
  void clear_gradients(bool set_to_none = true);

  [[nodiscard]] const std::shared_ptr<ParameterArena>& arena() const;

  [[nodiscard]] ReducerStatistics statistics() const;
  void reset_statistics();

 private:
  class State;
  // The hooks on the parameters, which can't be taken off, hold it weakly.
  std::shared_ptr<State> state_;
};

}  // namespace kolo
