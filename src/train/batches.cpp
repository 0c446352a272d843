#include "train/batches.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "kolo/layout/virtual_ranks.h"
#include "kolo/nn/metrics.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/parallel/training_step.h"

namespace kolo {

torch::Device device_of(const torch::nn::Module& network) {
  for (const auto& parameter : network.parameters()) return parameter.device();
  return torch::kCPU;
}

namespace {

// Copies samples that don't begin at a cache line, where kernels may round differently.
torch::Tensor as_its_own(const torch::Tensor& samples) {
  constexpr std::uintptr_t alignment = 64;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(samples.data_ptr()) % alignment == 0;
  return is_aligned ? samples : samples.clone();
}

}  // namespace

Batch part_of(const Batch& batch, std::size_t part) {
  if (batch.part_sizes.empty()) return batch;
  const auto index = static_cast<std::ptrdiff_t>(part);
  const auto first =
      std::accumulate(batch.part_sizes.begin(), batch.part_sizes.begin() + index, std::int64_t{0});
  const auto count = batch.part_sizes[part];
  Batch result{as_its_own(batch.input.narrow(0, first, count)),
               as_its_own(batch.target.narrow(0, first, count)),
               {},
               batch.position,
               {}};
  if (!batch.indices.empty())
    result.indices.assign(batch.indices.begin() + first, batch.indices.begin() + first + count);
  return result;
}

PipelineStep::Loss training_numbers(const Objective& objective, const torch::Tensor& outputs,
                                    const torch::Tensor& targets) {
  const auto loss = objective.loss(outputs, targets);
  const auto factor = objective.part.loss_factor;
  return {factor == 1 ? loss : loss * factor, metric_sums(objective, loss, outputs, targets)};
}

std::string advice_on_what_is_not_finite(bool may_skip) {
  const std::string advice =
      "Go on from an earlier checkpoint, where there is one (--resume, --resume best or --resume "
      "STEP), with a lower learning rate, a warm-up or training.clip_norm";
  return advice + (may_skip ? ", or leave bad steps out with training.non_finite=skip" : "");
}

namespace {

// Makes ranks that work through batches on their own leave after the same one: each batch's answers
// are added up while the next batch is worked on.
class StopAgreement {
 public:
  // `batches`: of this rank; ranks may have different numbers. Collective.
  StopAgreement(const Communicator& communicator, std::int64_t batches,
                const std::function<bool()>& stop_requested)
      : communicator_(communicator),
        stop_requested_(stop_requested),
        rounds_(all_reduce_value(communicator_, batches, ReduceOp::min)) {}

  // Called after a batch. True: all ranks stop here. Collective for as many batches as every rank
  // has.
  [[nodiscard]] bool stops() {
    if (rounds_ == 0) return false;
    --rounds_;
    const auto requests = std::make_shared<std::int64_t>(stop_requested_() ? 1 : 0);
    auto work = communicator_.all_reduce_async(std::span(requests.get(), 1), ReduceOp::sum,
                                               {.name = "requests to stop", .owner = requests});
    const bool is_asked = stops_at_end();
    if (is_asked) work.wait();
    last_ = std::move(work);
    last_requests_ = requests;
    return is_asked;
  }

  // Called after the last batch. Collective where stops() never was true.
  [[nodiscard]] bool stops_at_end() {
    if (!last_requests_) return false;
    last_.wait();
    return *last_requests_ > 0;
  }

 private:
  const Communicator& communicator_;
  const std::function<bool()>& stop_requested_;
  std::int64_t rounds_;  // left
  Work last_;
  std::shared_ptr<std::int64_t> last_requests_;
};

}  // namespace

torch::Tensor validation_sums(const Objective& objective, const torch::Tensor& outputs,
                              const torch::Tensor& targets) {
  const auto& loss = objective.validation_loss ? objective.validation_loss : objective.loss;
  return metric_sums(objective, loss(outputs, targets), outputs, targets);
}

std::optional<MetricSums> evaluate_batches(const Communicator& communicator,
                                           torch::nn::Module& module, Loader& loader,
                                           const Evaluation& evaluation) {
  const torch::NoGradGuard no_gradient;
  std::optional<StopAgreement> agreement;
  if (evaluation.stop_requested)
    agreement.emplace(communicator, loader.batches(), evaluation.stop_requested);
  const auto device = device_of(module);
  const auto parts =
      evaluation.virtual_ranks == 0
          ? 1
          : parts_of_rank(evaluation.virtual_ranks, communicator.size(), communicator.rank())
                .size();
  const auto sums =
      torch::zeros({parts, metric_numbers}, torch::TensorOptions(torch::kDouble).device(device));
  module.eval();
  loader.deliver_to(device);
  loader.start_epoch(0);
  const auto tell = [&, total = loader.batches()](std::int64_t done) {
    if (evaluation.progress) evaluation.progress(done, total);
  };
  tell(0);
  bool is_stopped = false;
  for (std::int64_t done = 0; const auto batch = is_stopped ? std::nullopt : loader.next();) {
    for (int part = 0; part < parts; ++part) {
      const auto mine = part_of(*batch, static_cast<std::size_t>(part));
      if (mine.input.size(0) > 0) sums[part].add_(evaluation.sums_of(mine));
    }
    tell(++done);
    is_stopped = agreement && agreement->stops();
  }
  module.train();
  if (is_stopped || (agreement && agreement->stops_at_end())) return std::nullopt;
  if (evaluation.virtual_ranks > 0) {
    const auto total = ordered_total(communicator, evaluation.virtual_ranks, sums);
    return metrics_of(LateNumbers(total).get());
  }
  auto values = LateNumbers(sums).get();
  communicator.all_reduce(std::span(values), ReduceOp::sum, {.name = "metrics"});
  return metrics_of(values);
}

MetricSums evaluate(const Communicator& communicator, Network& network, const Objective& objective,
                    Loader& loader, const EvaluationMeasure& measure,
                    const EvaluationProgress& progress, int virtual_ranks) {
  const auto sums_of = [&](const Batch& batch) {
    const torch::Tensor outputs = forward_for(objective, network, batch.input);
    if (measure) measure(outputs, batch.target);
    return validation_sums(objective, outputs, batch.target);
  };
  return evaluate_batches(
             communicator, network, loader,
             {.sums_of = sums_of, .progress = progress, .virtual_ranks = virtual_ranks})
      .value();
}

namespace {

// Index of a sample of which these are the inputs or targets and which is not finite; -1: there is
// none.
std::int64_t not_finite_in(const Batch& batch, const torch::Tensor& values) {
  if (!values.is_floating_point() || is_finite(values)) return -1;
  const auto are_finite = values.reshape({values.size(0), -1}).isfinite().all(1).cpu();
  for (std::int64_t row = 0; row < are_finite.size(0); ++row)
    if (!are_finite[row].item<bool>()) return batch.indices[static_cast<std::size_t>(row)];
  return -1;
}

}  // namespace

std::string describe_not_finite_sample(const Communicator& communicator, Loader& loader) {
  std::array<std::int64_t, 2> found{-1, -1};  // input, target
  loader.start_epoch(0);
  while (const auto batch = loader.next()) {
    found[0] = std::max(found[0], not_finite_in(*batch, batch->input));
    found[1] = std::max(found[1], not_finite_in(*batch, batch->target));
  }
  communicator.all_reduce(std::span(found), ReduceOp::max, {.name = "samples not finite"});
  if (found[0] >= 0) return fmt::format("the input of sample {}", found[0]);
  return found[1] >= 0 ? fmt::format("the target of sample {}", found[1]) : "";
}

}  // namespace kolo
