#pragma once

#include "cli/train/run_records.h"
#include "cli/train/run_training.h"
#include "kolo/comm/communicator.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/train/trainer.h"

// What a run says of itself besides its epochs. For rank 0.
namespace kolo {

// Ranks, communication, data, model, optimizer and rates, before training.
void log_set_up(RunLog& log, const PreparedRun& run, const Communicator& communicator,
                const Trainer& trainer, const LearningRate& rate);

// The network's layers: a short list, or where to find a long one, which is written to model.txt.
void log_model(RunLog& log, const PreparedRun& run, const RunOptions& options);

// Where it goes on, and what is different from now on.
void log_resume(RunLog& log, const PreparedRun& run, const CheckpointStore::Loaded& from);

// A stop on request.
void log_stop(RunLog& log, const PreparedRun& run, StopSignal& stop, const TrainState& state);

// The best, and where the results are.
void log_summary(RunLog& log, const PreparedRun& run, const RunRecords& records,
                 const TrainState& state);

}  // namespace kolo
