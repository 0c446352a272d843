#include "kolo/train/evaluation.h"

#include <array>

namespace kolo {

MetricSums evaluate(const Communicator& communicator, Network& network, const Objective& objective,
                    Loader& loader, ConfusionMatrix* matrix, const EvaluationProgress& progress) {
  const torch::NoGradGuard no_gradient;
  const auto& loss = objective.validation_loss ? objective.validation_loss : objective.loss;
  MetricSums sums;
  std::optional<ConfusionMatrix> mine;
  if (matrix != nullptr) mine.emplace(matrix->classes());
  network.eval();
  loader.start_epoch(0);
  const auto tell = [&, total = loader.batches()](std::int64_t done) {
    if (progress) progress(done, total);
  };
  tell(0);
  for (std::int64_t done = 0; const auto batch = loader.next();) {
    const torch::Tensor outputs = forward_in(objective.precision, network, batch->input);
    sums.add(sums_of(objective, loss(outputs, batch->target), outputs, batch->target));
    if (mine) mine->add(outputs, batch->target);
    tell(++done);
  }
  network.train();
  std::array<double, 4> values{sums.loss, sums.correct, sums.in_top, sums.samples};
  communicator.all_reduce(std::span(values), ReduceOp::sum, {.name = "metrics"});
  if (mine) {
    communicator.all_reduce(mine->counts(), ReduceOp::sum, {.name = "confusion matrix"});
    matrix->merge(*mine);
  }
  return {values[0], values[1], values[2], values[3]};
}

}  // namespace kolo
