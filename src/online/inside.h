#pragma once

#include <cfenv>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sched.h>

#include <nlohmann/json.hpp>

#include "base/openmp.h"
#include "kolo/comm/communicator.h"
#include "kolo/online/online_network.h"
#include "online/inference.h"
#include "online/online_trainer.h"
#include "online/roles.h"
#include "online/sample_store.h"

namespace kolo::online {

// Saves the program's state and restores it at the end of a call into kolo: this thread's number of
// OpenMP threads and whether it may get fewer, its floating-point environment (traps, rounding,
// denormals) and its processors. Within the call OpenMP and LibTorch use as many threads as the
// program's OpenMP would, and floating-point traps are off (LibTorch makes harmless NaNs).
//
// LibTorch sets a thread's number of OpenMP threads itself, unasked, when it first computes there
// (at::init_num_threads).
class HostState {
 public:
  HostState();
  HostState(const HostState&) = delete;
  HostState& operator=(const HostState&) = delete;
  ~HostState();

 private:
  std::fenv_t floating_point_{};
  cpu_set_t processors_{};
  bool has_processors_ = false;
  PromisedThreads promised_;
  int openmp_threads_ = openmp_threads();
};

// Sets the number of threads that the calling thread computes with; 0: LibTorch's default.
void compute_with(int threads);

// Sets OpenBLAS's number of threads, which is the whole process's, to that of the caller's OpenMP,
// and restores it when the last instance ends. For calls that train.
class BlasThreads {
 public:
  BlasThreads();
  BlasThreads(const BlasThreads&) = delete;
  BlasThreads& operator=(const BlasThreads&) = delete;
  ~BlasThreads();
};

// Trains on a thread of its own, in lockstep with the other training ranks. Each round begins with
// a small all-reduce in which they agree whether to step, publish, or end.
class BackgroundTraining {
 public:
  // Copy of the network after a step.
  struct Publication {
    std::shared_ptr<const Weights> weights;
    TickReport progress;
  };

  // Starts training `trainer` on samples of `store`. `ranks`: the training ranks. `threads`: OpenMP
  // threads of the new thread.
  BackgroundTraining(const Call& call, const Communicator& ranks, OnlineTrainer& trainer,
                     SampleStore& store, Normalizer& normalizer, int threads);
  BackgroundTraining(const BackgroundTraining&) = delete;
  BackgroundTraining& operator=(const BackgroundTraining&) = delete;
  // Ends after the current step, on all ranks.
  ~BackgroundTraining();
  void stop();

  // Rethrows the error that ended the thread, if any.
  void rethrow() const;

  // Asks for one more publication, which is made once all ranks have asked. Returns the number of
  // publications so far; each is the same on all ranks.
  std::int64_t ask_for_publication();
  // Returns a publication and drops all earlier ones.
  [[nodiscard]] Publication take(std::int64_t publication);

 private:
  void loop(int threads);
  [[nodiscard]] bool go_round();
  void step();
  void publish();

  Call call_;                      // named in errors of steps
  Communicator ranks_, meetings_;  // meetings_: with_own_order()
  OnlineTrainer& trainer_;
  SampleStore& store_;
  Normalizer& normalizer_;
  std::int64_t steps_ = 0;
  mutable std::mutex mutex_;
  bool is_asked_to_stop_ = false;
  std::int64_t asked_ = 0, published_ = 0;
  std::map<std::int64_t, Publication> publications_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace kolo::online

namespace kolo {

// Implementation of OnlineNetwork, which only adds HostState to these calls. Sources:
// construction and inference (online_network.cpp), samples (pushing.cpp), training in time steps
// (ticking.cpp), in the background (background.cpp) and apart (serving.cpp), files (saving.cpp).
class OnlineNetwork::Inside {
 public:
  Inside(const Communicator& ranks, const OnlineConfig& config, OnlineComponents components);
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() = default;

  PushReport push(std::span<const Array> inputs, std::span<const Array> targets,
                  std::span<const Array> extras);
  TickReport tick(std::int64_t time_step);
  double train(std::span<const Array> inputs, std::span<const Array> targets,
               std::span<const Array> extras);
  void infer(std::span<const Array> inputs, std::span<const Array> outputs) const;
  void warm_up(std::span<const Array> inputs) const;
  TickReport serve();
  std::int64_t refresh();
  void finish();
  void start();
  void pause();
  void save(const std::filesystem::path& folder, std::int64_t tag);
  void restore(const std::filesystem::path& folder, std::int64_t tag);
  void log(std::string_view name, std::int64_t step, double value);
  [[nodiscard]] double get(std::string_view name) const;
  [[nodiscard]] bool trains() const { return roles_.trains; }

 private:
  [[nodiscard]] online::Call call(std::string_view name) const { return {name, ranks_.rank()}; }
  void require_computing(const online::Call& call) const;
  void require_foreground(const online::Call& call) const;
  [[nodiscard]] bool has_batch() const { return config_.training.samples != SampleKind::whole; }

  // Making.
  void make_network(const OnlineComponents& components);
  void make_trainer(const OnlineComponents& components);

  // Samples.
  std::int64_t take(const online::PackedSamples& packed, PushReport& report);
  void measure(const online::SampleArguments& arguments);
  void require_fitting(const online::SampleArguments& arguments, const online::Call& call);
  void pass_samples(const online::Call& call);
  void send_waiting();
  void receive_waiting();
  void take_held();
  void tell_held();

  // Training in time steps.
  [[nodiscard]] TickReport report(std::int64_t steps) const;
  struct Plan {
    std::int64_t steps = 0;         // to train now
    std::int64_t waiting_for = -1;  // a rank with too few samples; -1: none
  };
  [[nodiscard]] Plan plan_steps(const Communicator& ranks);
  void require_one_time_step(std::int64_t first, std::int64_t least_negated) const;
  void step(const std::function<online::Samples()>& samples, const online::Call& call,
            std::int64_t time_step, double weight = 1);
  void record(std::int64_t time_step);
  void require_recorded();
  void make_steps(std::int64_t steps, std::int64_t time_step);
  // Makes the current weights those of infer(), on all computing ranks.
  void publish();
  [[nodiscard]] std::shared_ptr<online::Weights> live_weights();
  void hand_over(online::Weights& weights);
  TickReport take_newest(std::int64_t time_step);
  void agree_unless_all_train(const online::Call& call, const std::function<void()>& local);
  // Serializes progress and normalization, which travel with the weights, and reads them back.
  [[nodiscard]] std::string description_of(const online::Weights& weights) const;
  void take_description(const std::string& text, online::Weights& weights);

  // Apart.
  void take_letters();
  // Plans the training ranks' next steps; nothing if all computing ranks have sent a request.
  [[nodiscard]] std::optional<Plan> agree_on_plan();
  [[nodiscard]] bool answer();
  void send_weights();
  void receive_weights();
  // Sends a request of all computing ranks to the training ranks.
  void ask(const online::Call& call, online::Letter::Kind kind, std::int64_t number = 0,
           const std::string& text = {});
  void receive_answer(const online::Call& call);

  // Files. `ranks`: all ranks, or the training ranks with training.apart.
  // InputError for a folder and a tag that can't be, or that aren't the same on all ranks that
  // call.
  void require_one_place(const online::Call& call, const std::filesystem::path& folder,
                         std::int64_t tag) const;
  [[nodiscard]] int first_trainer_in(const Communicator& ranks) const;
  void save_on(const Communicator& ranks, const std::filesystem::path& folder, std::int64_t tag);
  void restore_on(const Communicator& ranks, const std::filesystem::path& folder, std::int64_t tag);

  Communicator ranks_;
  OnlineConfig config_;
  online::Roles roles_;
  std::optional<Communicator> trainers_;   // on training ranks
  std::optional<Communicator> computing_;  // on computing ranks, with training.apart
  std::shared_ptr<TensorsNetwork> network_;
  bool has_tensors_outside_ = false;  // buffers or frozen parameters, which no arena averages
  online::Weights live_;              // the network's own tensors
  std::unique_ptr<online::OnlineTrainer> trainer_;  // on training ranks
  TensorsLoss catalogue_loss_;                      // null: a file's or the program's
  std::optional<online::SampleShapes> fitting_;     // that network and loss are known to take
  online::SampleStore store_;
  online::Normalizer normalizer_;
  std::unique_ptr<online::Inference> inference_;
  std::unique_ptr<online::TrainingRecorder> recorder_;  // on the first training rank
  std::exception_ptr record_failure_;
  TickReport progress_;  // newest that this rank knows
  std::int64_t ticks_ = 0, time_step_ = 0;
  double step_seconds_ = 0;  // measured last
  std::int64_t taken_ = 0;   // publication of the background that infer() uses

  // On ranks that don't train.
  std::optional<online::SampleShapes> shapes_;
  online::PackedSamples waiting_;
  std::int64_t held_by_trainer_ = 0;  // samples, of all its senders
  std::optional<online::Outbox> outbox_;
  bool is_finished_ = false;

  // On training ranks: samples of others that the reservoir has had no room for.
  online::PackedSamples held_;

  // On training ranks, with training.apart.
  std::vector<online::Inbox> inboxes_;

  // Declared last: its thread uses everything above.
  std::unique_ptr<online::BackgroundTraining> background_;
};

}  // namespace kolo
