#pragma once

#include "cli/bench/measure.h"
#include "kolo/scaling/network_fit.h"
#include "kolo/scaling/step_profile.h"

// What predictions are made from: a step without communication, and collectives without a step.
namespace kolo {

// A trainer's steps on one batch, on all ranks at once, but without averaging gradients
// (ReducerOptions::communicate is false), so that the ranks share caches and memory as they do in a
// training. What the trainer's options decide, the data wait among it, is left to the caller.
// Collective.
[[nodiscard]] StepProfile measure_profile(const Communicator& communicator, Trainer& trainer,
                                          const Network& network, Loader& loader,
                                          const BenchPlan& plan);

// All-reduces of 4 KiB to 64 MiB of float32 (or until one takes half a second), as gradients are
// averaged: asynchronously, in memory from Communicator::allocate() that every rank has just
// written. Medians of many calls. Collective.
[[nodiscard]] CollectiveMeasurement measure_collectives(const Communicator& communicator);

}  // namespace kolo
