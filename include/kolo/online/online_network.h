#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kolo/comm/communicator.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/models.h"
#include "kolo/online/array.h"
#include "kolo/online/online_config.h"

namespace kolo {

// Work done by tick() and serve().
struct TickReport {
  std::int64_t steps = 0;         // of training, in this call
  std::int64_t all_steps = 0;     // since the network was made
  double loss = 0;                // mean over ranks of the last step; NaN before the first
  double learning_rate = 0;       // of the last step
  std::int64_t version = 0;       // of the weights that infer() uses from now on
  std::int64_t arrivals = 0;      // samples that came, on all ranks, until the last step
  std::int64_t stored = 0;        // of those in reservoirs now, on all ranks
  std::int64_t skipped = 0;       // steps left out since the network was made: not finite
  std::int64_t waiting_for = -1;  // a rank whose reservoir has too few samples yet; -1: none
};

// Fate of the samples of one push().
struct PushReport {
  std::int64_t taken = 0;       // stored, or passed over as the policy has it
  std::int64_t refused = 0;     // no room: push them again after the next tick()
  std::int64_t dropped = 0;     // no room, and reservoir.when_full is drop
  std::int64_t not_finite = 0;  // had a NaN or an infinity, and were left out
};

// Parts that a program brings itself.
struct OnlineParts {
  ModelCatalogue models = built_in_models();
  // With model.name "own": makes the network, each call another one of the same shapes; called
  // on every rank, and once more for each thread that infers at the same time.
  std::function<std::shared_ptr<TensorsNetwork>()> network = {};
  TensorsLoss loss = {};  // instead of training.loss
};

// A network that learns inside a running simulation, and answers there.
//
// Collective calls are made by all ranks of its communicator, in one order; they begin with a
// meeting of the ranks in which each says whether it can go on, so what is wrong on one is an Error
// on all: of its own kind there, a CommunicationError that names it on the others. Nothing else
// communicates. Errors name the call, its argument and the rank.
//
// One thread at a time makes the calls, but for infer(), which any number of threads may call at
// the same time, also while another thread is in tick(). Every call leaves the program's number of
// OpenMP threads, floating-point environment and processor affinity as they were. LibTorch computes
// with as many threads as the caller's OpenMP would (omp_get_max_threads()).
class OnlineNetwork {
 public:
  // Of all ranks of a communicator: a session's (kolo/comm/session.h), or the job's. InputError
  // where their configurations differ. Collective. Holds a handle of it, so a session is finalized
  // after its networks are gone.
  OnlineNetwork(const Communicator& ranks, const OnlineConfig& config, OnlineParts parts = {});
  OnlineNetwork(OnlineNetwork&&) noexcept;
  OnlineNetwork& operator=(OnlineNetwork&&) noexcept;
  // Ends background training, after the step that is under way. Local.
  ~OnlineNetwork();

  // Hands samples over; they are copied. training.samples says what a sample is in the arrays.
  // Their shapes and types stay those of the first call. Local.
  PushReport push(std::span<const Array> inputs, std::span<const Array> targets,
                  std::span<const Array> extras = {});

  // To be called once per time step. At every training.every-th call, where all ranks that train
  // have reservoir.minimum samples, it trains; weights change in no other call (but train(),
  // restore() and refresh()), and all ranks then infer with the same. With background training it
  // takes the newest weights that all ranks have. Collective.
  TickReport tick(std::int64_t time_step);

  // One step on these samples of each rank that trains, without the reservoir; returns the mean
  // loss. Collective.
  double train(std::span<const Array> inputs, std::span<const Array> targets,
               std::span<const Array> extras = {});

  // Computes outputs for inputs, in evaluation mode, without gradients. Outputs may have any
  // strides; they must not share elements with one another. Local, thread-safe.
  void infer(std::span<const Array> inputs, std::span<const Array> outputs) const;
  // Does what a first call takes time for, on inputs of these shapes. Local.
  void warm_up(std::span<const Array> inputs) const;

  // With training.apart. Of the ranks that train: takes samples and trains until the other ranks
  // call finish(), and takes part in their refresh(), save() and restore() meanwhile. Returns what
  // it has done. Collective among them.
  TickReport serve();
  // Of the other ranks, collective among them: the newest weights that all of them can have;
  // infer() uses them from then on. Returns their version.
  std::int64_t refresh();

  // Of the other ranks: no more samples come, so serve() returns on those that train. Waits until
  // they have taken all. Nothing without training.apart. Collective among them.
  void finish();

  // Background training: begins, and ends after a step that all ranks agree on. Error where threads
  // may not call MPI and ranks are on several nodes (docs/simulations.md, Thread levels).
  // Collective.
  void start();
  void pause();

  // Network, optimizer, counters, statistics and, unless the configuration says no, reservoirs, as
  // folder/step-TAG; whole or not at all. `tag`: the simulation's own number of its restart file.
  // Nothing is removed. Collective.
  void save(const std::filesystem::path& folder, std::int64_t tag);
  // Takes back what save() has written, with any number of ranks, and removes what has later tags.
  // Training goes on to the bits of the run that was not stopped where the ranks are as many, and
  // nothing is in the background. InputError where it is of another network. Collective.
  void restore(const std::filesystem::path& folder, std::int64_t tag);

  // A number of the program's for TensorBoard, on the first rank that trains; nothing elsewhere.
  // Local.
  void log(std::string_view name, std::int64_t step, double value);
  // One of this rank's: "loss", "learning_rate", "steps", "version", "arrivals", "stored",
  // "capacity", "skipped", "parameters", "checksum" (of the weights that infer() uses). InputError
  // for another name. Local.
  [[nodiscard]] double get(std::string_view name) const;

  [[nodiscard]] bool trains() const;  // this rank does

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace kolo
