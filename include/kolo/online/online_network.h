#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "kolo/comm/communicator.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/models.h"
#include "kolo/online/array.h"
#include "kolo/online/online_config.h"

namespace kolo {

// Work done by tick() and serve().
struct TickReport {
  std::int64_t steps = 0;      // training steps in this call
  std::int64_t all_steps = 0;  // training steps since the network was made
  // Mean over ranks of the last step; NaN before the first.
  double loss = std::numeric_limits<double>::quiet_NaN();
  double learning_rate = 0;       // of the last step
  std::int64_t version = 0;       // of the weights that infer() now uses
  std::int64_t arrivals = 0;      // samples that arrived on all ranks until the last step
  std::int64_t stored = 0;        // samples in the reservoirs of all ranks
  std::int64_t skipped = 0;       // steps skipped so far because they weren't finite
  std::int64_t waiting_for = -1;  // a rank whose reservoir has too few samples; -1: none
};

// Fate of the samples of one push().
struct PushReport {
  std::int64_t taken = 0;       // stored, or passed over by the policy
  std::int64_t refused = 0;     // no room: push them again after the next tick()
  std::int64_t dropped = 0;     // no room, and reservoir.when_full is drop
  std::int64_t not_finite = 0;  // had a NaN or an infinity, and were left out
};

// Parts that a program supplies itself.
struct OnlineComponents {
  ModelCatalogue models = built_in_models();
  // Makes the network if model.name is "own": each call a new one of the same shapes. Called once
  // on every rank, and once more for each thread that infers at the same time.
  std::function<std::shared_ptr<TensorsNetwork>()> network = {};
  TensorsLoss loss = {};  // instead of training.loss
};

// Network that learns and infers inside a running simulation.
//
// All ranks of its communicator make collective calls, in the same order. A collective call begins
// by agreeing whether each rank can take part, so an error on one rank is an Error on all: its own
// exception there, a CommunicationError that names it elsewhere. No other call communicates. Errors
// name the call, its argument and the rank.
//
// One thread at a time makes calls, except for infer(), which any number of threads may call at the
// same time, also while another thread is in tick(). Every call leaves the program's number of
// OpenMP threads, floating-point environment and processor affinity as they were. LibTorch computes
// with as many threads as the caller's OpenMP would (omp_get_max_threads()).
class OnlineNetwork {
 public:
  // Makes the network on all ranks of a communicator: a session's (kolo/comm/session.h), or the
  // job's. InputError if their configurations differ. Holds a handle of the communicator, so
  // finalize a session after its networks are gone. Collective.
  OnlineNetwork(const Communicator& ranks, const OnlineConfig& config,
                OnlineComponents components = {});
  OnlineNetwork(OnlineNetwork&&) noexcept;
  OnlineNetwork& operator=(OnlineNetwork&&) noexcept;
  // Ends background training after the current step. Local.
  ~OnlineNetwork();

  // Copies samples into the reservoir, or for this rank's trainer. training.samples says what a
  // sample is in the arrays. Shapes and types stay those of the first call, which is an InputError
  // if a network or loss of the catalogue doesn't take them. Local.
  PushReport push(std::span<const Array> inputs, std::span<const Array> targets,
                  std::span<const Array> extras = {});

  // Call it once per time step. Trains at every training.every-th call, if all training ranks have
  // reservoir.minimum samples; then all ranks infer with the same weights. Only tick(), train(),
  // restore() and refresh() change weights. With background training it takes the newest weights
  // that all ranks have. InputError if it trains and the ranks' time steps differ. Collective.
  TickReport tick(std::int64_t time_step);

  // Trains one step on these samples of each training rank, without the reservoir; returns the mean
  // loss, in which each rank counts by its number of samples. Collective.
  double train(std::span<const Array> inputs, std::span<const Array> targets,
               std::span<const Array> extras = {});

  // Computes outputs for inputs, in evaluation mode, without gradients. Outputs may have any
  // strides but must not share elements. Local, thread-safe.
  void infer(std::span<const Array> inputs, std::span<const Array> outputs) const;
  // Does the slow work of a first infer() on inputs of these shapes. Local.
  void warm_up(std::span<const Array> inputs) const;

  // On training ranks, with training.apart: takes samples and trains until the other ranks call
  // finish(), and serves their refresh(), save() and restore() meanwhile. Collective among training
  // ranks.
  TickReport serve();
  // On the other ranks: takes the newest weights, which infer() uses from then on, and returns
  // their version. Collective among computing ranks.
  std::int64_t refresh();

  // On the other ranks: announces that no more samples come, so serve() returns, and waits until
  // all were taken. Does nothing without training.apart. Collective among computing ranks.
  void finish();

  // Starts background training, and ends it after a step that all ranks agree on. Error if threads
  // may not call MPI and ranks are on several nodes (docs/library/simulations.md, Thread levels).
  // Collective.
  void start();
  void pause();

  // Saves network, optimizer, counters, statistics and, unless checkpoint.reservoir is false,
  // reservoirs as folder/step-TAG; whole or not at all. `tag`: the number of the simulation's own
  // restart file. Removes nothing. InputError on all ranks, with nothing written, if their folders
  // or tags differ. Collective.
  void save(const std::filesystem::path& folder, std::int64_t tag);
  // Restores what save() has written, on any number of ranks, and removes saves with later tags.
  // The bits are those of an uninterrupted run if the number of ranks is the same and nothing
  // trains in the background. InputError if another network saved it, and if
  // folders or tags differ. Collective.
  void restore(const std::filesystem::path& folder, std::int64_t tag);

  // Writes a number for TensorBoard on the first training rank; does nothing elsewhere. Local.
  void log(std::string_view name, std::int64_t step, double value);
  // Number of this rank: "loss", "learning_rate", "steps", "version", "arrivals", "stored",
  // "capacity", "skipped", "parameters" or "checksum" (of the weights that infer() uses).
  // InputError for another name. Local.
  [[nodiscard]] double get(std::string_view name) const;

  [[nodiscard]] bool trains() const;  // this rank does

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace kolo
