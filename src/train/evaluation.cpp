#include "kolo/train/evaluation.h"

#include <array>

#include "train/stop_agreement.h"

namespace kolo {

namespace {

// `agreement`: none where nobody may stop.
std::optional<MetricSums> evaluate_all(const Communicator& communicator, Network& network,
                                       const Objective& objective, Loader& loader,
                                       ConfusionMatrix* matrix, const EvaluationProgress& progress,
                                       std::optional<StopAgreement> agreement) {
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
  bool is_stopped = false;
  for (std::int64_t done = 0; const auto batch = is_stopped ? std::nullopt : loader.next();) {
    const torch::Tensor outputs = forward_in(objective.precision, network, batch->input);
    sums.add(sums_of(objective, loss(outputs, batch->target), outputs, batch->target));
    if (mine) mine->add(outputs, batch->target);
    tell(++done);
    is_stopped = agreement && agreement->stops();
  }
  network.train();
  if (is_stopped || (agreement && agreement->stops_at_end())) return std::nullopt;
  std::array<double, 4> values{sums.loss, sums.correct, sums.in_top, sums.samples};
  communicator.all_reduce(std::span(values), ReduceOp::sum, {.name = "metrics"});
  if (mine) {
    communicator.all_reduce(mine->counts(), ReduceOp::sum, {.name = "confusion matrix"});
    matrix->merge(*mine);
  }
  return MetricSums{values[0], values[1], values[2], values[3]};
}

}  // namespace

MetricSums evaluate(const Communicator& communicator, Network& network, const Objective& objective,
                    Loader& loader, ConfusionMatrix* matrix, const EvaluationProgress& progress) {
  return evaluate_all(communicator, network, objective, loader, matrix, progress, std::nullopt)
      .value();
}

std::optional<MetricSums> evaluate_unless_stopped(const Communicator& communicator,
                                                  Network& network, const Objective& objective,
                                                  Loader& loader,
                                                  const std::function<bool()>& stop_requested,
                                                  ConfusionMatrix* matrix,
                                                  const EvaluationProgress& progress) {
  return evaluate_all(communicator, network, objective, loader, matrix, progress,
                      StopAgreement(communicator, loader.batches(), stop_requested));
}

}  // namespace kolo
