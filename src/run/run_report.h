#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/nn/network.h"
#include "kolo/train/observe/run_log.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/train/recorders.h"
#include "kolo/train/trainer.h"
#include "run/prepared_run.h"
#include "run/rank_network.h"
#include "run/run_training.h"

// What a run says in its log: of what it is made, where it goes on, how it ends.
namespace kolo {

// Ranks, communication, data, model, optimizer and rates, before training.
void log_set_up(RunLog& log, const PreparedRun& run, const Communicator& communicator,
                const Trainer& trainer, const LearningRate& rate, const ModelSummary& model);
void log_pipeline(RunLog& log, const PreparedRun& run, const std::optional<PipelineCut>& cut,
                  int ranks);
// The network's layers: a short list, or where to find a long one, which is written to model.txt.
void log_model(RunLog& log, const PreparedRun& run, const ModelSummary& summary,
               const RunOptions& options);

// Where it goes on, and what is different from now on.
void log_resume(RunLog& log, const PreparedRun& run, const LoadedCheckpoint& from);

// Who has stopped the run at this state; empty: not known.
[[nodiscard]] std::string stopped_by(const RunContext& context, const TrainState& state);
// A stop on request; `by`: "SIGTERM", or empty.
void log_stop(RunLog& log, const PreparedRun& run, const std::string& by, const TrainState& state);

// The best, and where the results are.
void log_summary(RunLog& log, const PreparedRun& run, const HistoryRecorder& history,
                 const TrainState& state, const torch::Device& device);

}  // namespace kolo
