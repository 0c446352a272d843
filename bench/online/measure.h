#pragma once

#include <cstdint>
#include <string>
#include <vector>

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "kolo/comm/communicator.h"
#include "kolo/online/online_config.h"

// Measurements of a network inside a simulation, each in a source of its own; all are collective.
namespace kolo {

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
};

struct OnlineBench {
  MPI_Comm communicator;      // the program's
  const Communicator& ranks;  // the session's
  std::string network = "linear";
  std::int64_t batch = 16;     // per rank
  std::int64_t warm_up = 200;  // steps
  std::int64_t steps = 2000;   // per round
  int rounds = 5;
};

// The time of the slowest rank.
[[nodiscard]] inline double slowest(const Communicator& ranks, double seconds) {
  return all_reduce_value(ranks, seconds, ReduceOp::max);
}

// A configuration of a small perceptron on cells of eight fields, with some lines more.
[[nodiscard]] OnlineConfig closure_config(const std::vector<std::string>& overrides);

// Steps per second of train(), of push() and tick(), and of a peer (bench/peers), each with the
// solver; and checksums of the weights after equally many steps.
[[nodiscard]] std::vector<Figure> measure_steps(const OnlineBench& bench);
// The peer alone, in a process without networks of kolo's, which keep freed memory.
[[nodiscard]] std::vector<Figure> measure_peer(const OnlineBench& bench);
// infer() beside the network's forward pass alone.
[[nodiscard]] std::vector<Figure> measure_inference(const OnlineBench& bench);
// tick() where nothing is trained, and push().
[[nodiscard]] std::vector<Figure> measure_calls(const OnlineBench& bench);
// Memory beyond the reservoir's capacity, and whether it grows.
[[nodiscard]] std::vector<Figure> measure_memory(const OnlineBench& bench);
// A solver's time steps beside training in the background.
[[nodiscard]] std::vector<Figure> measure_background(const OnlineBench& bench);
// Errors after a stream that drifts: a reservoir, and training on the newest samples.
[[nodiscard]] std::vector<Figure> measure_forgetting(const OnlineBench& bench);

}  // namespace kolo
