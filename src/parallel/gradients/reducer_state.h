#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/gradient_reducer.h"

namespace kolo {

// A parameter's gradient from backward() to its average. grad() is a placeholder without memory
// meanwhile: any operation of LibTorch on it but zeroing is an Error that says what to do, so
// nobody clips or steps with gradients of this rank alone. Gradients of later backward passes of
// the step, once the average has begun, are kept apart and averaged by themselves.
class PendingGradient {
 public:
  // Treatment of the placeholder by the program, apart from later passes.
  enum class Fate : std::uint8_t {
    untouched,
    zeroed,  // the gradient is not wanted any more
    changed,
  };

  PendingGradient(torch::Tensor parameter, std::string name);

  // Replaces grad() by the placeholder and keeps the gradient aside, if that is not done yet.
  void hold();
  [[nodiscard]] bool is_held() const { return is_held_; }
  // Undoes hold(), before the average has begun: grad() is the gradient kept aside, or undefined if
  // the placeholder was zeroed.
  Fate give_back();

  // Called while the average is under way and a later pass is about to add to grad(): until look()
  // grad() is the sum of the later passes so far.
  void open();
  [[nodiscard]] bool is_open() const { return is_open_; }
  // Notes changes of grad(), and makes it the placeholder again. False if it was changed other than
  // by zeroing.
  [[nodiscard]] bool look();
  [[nodiscard]] bool is_discarded() const { return is_discarded_; }  // zeroed while held
  // Sum of the later passes' gradients; undefined if there were none.
  [[nodiscard]] const torch::Tensor& later() const { return later_; }

  // Makes the average grad().
  void end(torch::Tensor average) {
    aside_ = torch::Tensor();
    parameter_.mutable_grad() = std::move(average);
  }

  // Replaces end() where only this rank's part is averaged: grad() stays the placeholder, whose
  // Error says so, until it is zeroed.
  void keep();
  [[nodiscard]] bool is_kept() const { return is_kept_; }
  // Returns the fate of a kept placeholder, and undefines grad() unless it is untouched.
  Fate look_at_kept();
  // Undefines a kept placeholder at the next step's backward(), which should have come after
  // zeroing. is_stale() until the new gradient is zeroed: a GAN's generator, for instance, trains
  // through its discriminator, whose gradients are zeroed afterwards.
  void drop_kept();
  [[nodiscard]] bool is_stale() const { return is_stale_; }

  // Ends a step, whatever has happened: a placeholder that is not kept gives way to the gradient
  // kept aside.
  void reset();
  // reset(), for kept placeholders too.
  void release();

 private:
  struct Notes;
  class Placeholder;

  [[nodiscard]] Fate fate() const;
  [[nodiscard]] bool is_placeholder(const torch::Tensor& gradient) const;
  void put_placeholder(bool is_partly_averaged);

  torch::Tensor parameter_;
  std::shared_ptr<Notes> notes_;
  torch::Tensor placeholder_;  // its implementation is a Placeholder
  torch::Tensor aside_;        // grad() before hold()
  torch::Tensor later_;
  bool is_held_ = false;
  bool is_open_ = false;  // grad() is later_
  bool is_discarded_ = false;
  bool is_kept_ = false;
  bool is_stale_ = false;
};

// A reducer's parameters by number (those of the arena in its order, then the sparse ones) and the
// units in which their gradients are averaged (the buckets, then each sparse parameter).
//
// Tasks on the communication thread own their data, but neither this nor the communicator.
class GradientUnits {
 public:
  // The average of a sparse gradient.
  struct SparseAverage {
    torch::Tensor gradient;
    std::int64_t bytes = 0;  // of indices and values that this rank has sent
  };

  // `communicator`: the arena's. The options must outlive this.
  GradientUnits(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
                const ReducerOptions& options);

  // Follows a change of the arena's plan.
  void lay_out();

  [[nodiscard]] std::size_t parameters() const { return unit_of_.size(); }
  [[nodiscard]] std::size_t size() const { return arena_->buckets() + sparse_.size(); }
  [[nodiscard]] bool is_sparse(std::size_t parameter) const {
    return parameter >= arena_->parameters().size();
  }
  [[nodiscard]] const torch::Tensor& tensor(std::size_t parameter) const;
  [[nodiscard]] std::string name(std::size_t parameter) const;
  [[nodiscard]] std::size_t unit_of(std::size_t parameter) const { return unit_of_[parameter]; }
  [[nodiscard]] std::vector<std::size_t> parameters_of(std::size_t unit) const;

  // True if one bucket is all there is to average, as in small networks: its average couldn't
  // overlap with backward.
  [[nodiscard]] bool are_one_bucket() const;
  // A single bucket in the host's memory is averaged in the calling thread, which takes less than
  // waking the communication thread and waiting.
  [[nodiscard]] bool are_done_at_once() const;

  // Starts the average of a bucket's gradients, or of a sparse parameter's grad(). Returns the
  // bytes; 0 for sparse gradients, whose size is known later.
  [[nodiscard]] std::int64_t start(std::size_t unit);
  [[nodiscard]] const std::vector<Work>& works() const { return works_; }  // by unit

  // Average of a sparse parameter, once its work is done.
  [[nodiscard]] const std::shared_ptr<SparseAverage>& sparse_average(std::size_t parameter) const {
    return sparse_[parameter - arena_->parameters().size()].average;
  }
  // Releases the step's sparse averages and returns their bytes.
  [[nodiscard]] std::int64_t release_sparse_averages();
  // Forgets the works of a step.
  void start_over() { works_.assign(size(), Work()); }

 private:
  struct SparseParameter {
    NamedTensor parameter;
    std::shared_ptr<SparseAverage> average = nullptr;
  };

  void start_sparse(std::size_t unit);

  Communicator communicator_;
  std::shared_ptr<const ParameterArena> arena_;
  const ReducerOptions& options_;
  std::vector<SparseParameter> sparse_;
  std::vector<std::size_t> unit_of_;                            // by parameter
  std::vector<std::shared_ptr<const GradientBucket>> buckets_;  // for the hook
  std::vector<Work> works_;
};

// Agreement of the ranks once per step, in one small all-reduce after the last bucket: whether all
// ranks are well, have the same parameters frozen and the same learning rates and, where asked for,
// which parameters any rank has used. All ranks get the same answer, so all fail or none.
struct StepAgreement {
  // This rank's statement.
  bool with_usage = false;
  std::vector<std::uint8_t> used;  // by parameter; afterwards by whatever rank
  std::string problem;             // trouble on this rank; empty: none
  // Fingerprint that all ranks must have: of frozen and discarded parameters, and of having had
  // several passes.
  std::uint64_t setup = 0;
  std::string setup_text;     // describes it, for the Error where it differs
  std::vector<double> rates;  // of the optimizer's groups

  std::string error;  // the result; empty: all is well

  // Collective.
  void run(const Communicator& communicator);
  // run() without other ranks.
  void run_alone();
  // Forgets a step except for its rates.
  void start_over();

 private:
  std::vector<std::uint8_t> message_;  // kept for its memory
};

// The reducer's state machine, over numbered parameters and what is averaged in one piece
// (GradientUnits). A step:
//
//   begin_step()           at the first gradient: frozen parameters are absent from this step
//   gradient_comes()       called by autograd's threads before and after they add to grad(): a
//   gradient_is_ready()    gradient that is ready is held, with a placeholder in grad(); complete
//                          units are started in order, and are under way from then on; later
//                          passes' gradients for them are kept apart
//   seal()                 backward is over: missing gradients are filled in, so that every rank
//                          starts every unit, whatever has gone wrong; then come the agreement and
//                          the averages of later passes
//   wait(), finish()       throw the Error that the ranks have agreed on
class GradientReducer::State : public std::enable_shared_from_this<State> {
 public:
  State(const Communicator& communicator, std::shared_ptr<ParameterArena> arena,
        ReducerOptions options);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  void attach();
  void gradient_comes(std::size_t parameter);
  void gradient_is_ready(std::size_t parameter);
  // The arena's memory for a gradient of this step, once, if it is to be the whole gradient.
  [[nodiscard]] std::shared_ptr<void> take_destination(std::size_t parameter);
  void add_no_sync(int scopes);
  void wait(std::size_t bucket);
  void finish();
  [[nodiscard]] bool has_averages() const { return has_averages_; }
  void take_averages();
  void set_rates(std::vector<double> rates) { agreement_->rates = std::move(rates); }
  void clear_gradients(bool set_to_none);

  [[nodiscard]] const std::shared_ptr<ParameterArena>& arena() const { return arena_; }
  [[nodiscard]] ReducerStatistics statistics();
  void reset_statistics();

 private:
  enum class Arrival : std::uint8_t {
    none,
    accumulated,  // in no_sync() only
    ready,
    absent,  // not to come: frozen, unused in a static graph, or missing at the end
  };

  [[nodiscard]] std::size_t parameters() const { return units_.parameters(); }
  [[nodiscard]] bool is_sparse(std::size_t parameter) const { return units_.is_sparse(parameter); }
  [[nodiscard]] const torch::Tensor& tensor(std::size_t parameter) const {
    return units_.tensor(parameter);
  }
  [[nodiscard]] std::string name(std::size_t parameter) const { return units_.name(parameter); }
  [[nodiscard]] bool communicates() const {
    return options_.communicate && communicator_.size() > 1;
  }
  [[nodiscard]] bool sends_usage() const { return options_.unused_parameters && !is_graph_known_; }

  // Before and during backward.
  void attach(std::size_t parameter);
  void attach_anew();
  void start_over();
  void begin_step();
  void set_ready(std::size_t parameter);
  void hold(std::size_t parameter);
  void take_back(std::size_t parameter);
  // Returns grad(), but undefined for the placeholder of a step before.
  [[nodiscard]] torch::Tensor gradient_of(std::size_t parameter) const;
  void set_absent(std::size_t parameter);
  void contribute(std::size_t parameter);
  void add_to_setup(std::size_t number);
  void describe_setup(const std::string& text);
  [[nodiscard]] bool is_complete(std::size_t unit) const;
  void start_complete_units();
  void start(std::size_t unit) { statistics_.bytes += units_.start(unit); }
  void start_agreement();

  // Several passes.
  [[nodiscard]] bool is_under_way(std::size_t parameter) const;
  void look_after(std::size_t parameter);
  void settle_passes(std::vector<std::string>& missing);
  void average_later_passes();
  void average_again(std::size_t bucket);
  void average_sparse_again(std::size_t unit);

  // After backward.
  void seal();
  void end_backward();
  void settle_arrivals(std::vector<std::string>& missing);
  void add_problem(const std::string& problem);
  [[nodiscard]] std::string missing_gradients(const std::vector<std::string>& names) const;
  void await(const Work& work);
  void await_agreement();
  [[noreturn]] void fail();
  void drain();
  [[nodiscard]] bool is_used_anywhere(std::size_t parameter) const;
  void hand_out(std::size_t parameter);
  void settle_absent(std::size_t parameter);
  void settle_averages();
  void note_graph();
  void rebuild_buckets();

  Communicator communicator_;  // the arena's
  std::shared_ptr<ParameterArena> arena_;
  ReducerOptions options_;
  GradientUnits units_;
  // Keeps accumulators alive: autograd drops unused ones, and their hooks with them.
  std::vector<GraphNode> accumulators_;
  std::vector<unsigned> tensor_hooks_;
  std::vector<PendingGradient> pending_;  // by parameter
  std::shared_ptr<StepAgreement> agreement_ = std::make_shared<StepAgreement>();
  std::int64_t hook_bytes_before_ = 0;

  std::mutex mutex_;  // backward may run on several threads
  int no_sync_scopes_ = 0;
  bool has_begun_ = false;
  bool is_sealed_ = false;
  bool has_averages_ = false;         // by finish(), until a backward() or an optimizer
  std::vector<Arrival> arrivals_;     // by parameter, in this step
  std::vector<bool> is_taken_;        // by parameter: its gradient is computed in the arena
  std::vector<std::size_t> missing_;  // gradients, by unit
  std::size_t started_ = 0;           // units, in order
  std::vector<bool> is_handed_out_;   // by bucket
  Work agreement_work_;
  std::vector<std::string> changed_;            // gradients that were, while they were averaged
  std::map<std::size_t, torch::Tensor> stash_;  // gradients of absent parameters, to be put back
  ReducerStatistics statistics_;                // but for exposed_
  DeviceClock clock_;
  DeviceTimeSum exposed_;

  bool starts_early_;              // during backward, not after it
  std::vector<bool> is_coming_;    // by parameter: a gradient is about to be added to grad()
  bool has_later_passes_ = false;  // for units that are under way

  bool is_graph_known_ = false;  // static_graph: the two below hold
  std::vector<bool> used_here_;
  std::vector<bool> used_anywhere_;
  bool is_order_wanted_ = false;    // rebuild_buckets: not yet done
  std::vector<std::size_t> order_;  // in which gradients of this step became ready
};

}  // namespace kolo
