#include "kolo/layout/pipeline_schedule.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

void require_shape(const PipelineShape& shape) {
  if (shape.ranks < 1 || shape.micro_batches < 1) {
    throw InputError(
        fmt::format("pipeline: {} ranks and {} micro-batches, expected 1 or more of each",
                    shape.ranks, shape.micro_batches));
  }
  if (shape.micro_batches > std::numeric_limits<int>::max() / 2) {
    throw InputError(fmt::format("pipeline: {} micro-batches are more than can be numbered",
                                 shape.micro_batches));
  }
}

// Number of forward passes before they take turns with backward passes.
int warm_up(const PipelineShape& shape, int rank) {
  if (shape.schedule == PipelineSchedule::gpipe) return shape.micro_batches;
  return std::min(shape.micro_batches, shape.ranks - rank - 1);
}

std::vector<PipelineAction> computations(const PipelineShape& shape, int rank) {
  const int first = warm_up(shape, rank);
  std::vector<PipelineAction> list;
  for (int forward = 0; forward < shape.micro_batches + first; ++forward) {
    if (forward < shape.micro_batches) list.push_back({PipelineWork::forward, forward});
    if (forward >= first) list.push_back({PipelineWork::backward, forward - first});
  }
  return list;
}

// The message that a computation needs, or that takes its result along; none at the pipeline's
// ends.
std::optional<PipelineAction> message(const PipelineShape& shape, int rank, PipelineWork direction,
                                      const PipelineAction& computation) {
  const bool is_forward = computation.work == PipelineWork::forward;
  const PipelineAction message{
      direction, computation.micro_batch,
      is_forward ? PipelinePayload::activation : PipelinePayload::gradient};
  const int peer = peer_of(message, rank);
  return peer >= 0 && peer < shape.ranks ? std::optional(message) : std::nullopt;
}

}  // namespace

int peer_of(const PipelineAction& message, int rank) {
  const bool goes_up =
      (message.payload == PipelinePayload::activation) == (message.work == PipelineWork::send);
  return goes_up ? rank + 1 : rank - 1;
}

std::vector<PipelineAction> pipeline_actions(const PipelineShape& shape, int rank) {
  require_shape(shape);
  if (rank < 0 || rank >= shape.ranks)
    throw Error(fmt::format("pipeline: rank {} of a pipeline of {} ranks", rank, shape.ranks));
  const auto passes = computations(shape, rank);
  std::vector<PipelineAction> actions;
  const auto add = [&](PipelineWork direction, const PipelineAction& pass) {
    if (const auto found = message(shape, rank, direction, pass)) actions.push_back(*found);
  };
  add(PipelineWork::receive, passes.front());
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (i + 1 < passes.size()) add(PipelineWork::receive, passes[i + 1]);
    actions.push_back(passes[i]);
    add(PipelineWork::send, passes[i]);
  }
  return actions;
}

double ideal_idle_fraction(const PipelineShape& shape) {
  require_shape(shape);
  const double others = shape.ranks - 1;
  return others / (shape.micro_batches + others);
}

std::string name_of(const PipelinePass& pass) {
  return fmt::format("{} stage {} micro-batch {}", name_of(pass.work), pass.stage,
                     pass.micro_batch);
}

// Reads anything like a pass, and takes it if its name is this one.
std::optional<PipelinePass> pipeline_pass_named(std::string_view name) {
  std::istringstream words{std::string(name)};
  std::string work, skipped;
  PipelinePass pass;
  words >> work >> skipped >> pass.stage >> skipped >> pass.micro_batch;
  if (work == "backward") pass.work = PipelineWork::backward;
  return name == name_of(pass) ? std::optional(pass) : std::nullopt;
}

}  // namespace kolo
