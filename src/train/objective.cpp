#include "kolo/train/objective.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"
#include "kolo/nn/device_norm.h"
#include "kolo/nn/metrics.h"
#include "kolo/parallel/training_step.h"
#include "train/device_batches.h"

namespace kolo {

torch::Tensor metric_sums(const Objective& objective, const torch::Tensor& loss,
                          const torch::Tensor& outputs, const torch::Tensor& targets) {
  const torch::NoGradGuard no_gradient;
  const auto& share = objective.share;
  const auto batch = static_cast<double>(targets.size(0));
  const auto samples = share.rank == 0 ? batch : 0;
  const auto of_loss = batch * share.loss_factor / share.ranks;
  const auto options = torch::TensorOptions(torch::kDouble).device(loss.device());
  const auto number = [&](double value) { return torch::full({}, value, options); };
  const auto counted = [&](const torch::Tensor& count) {
    return share.rank == 0 ? count.to(torch::kDouble) : number(0);
  };
  auto correct = number(std::numeric_limits<double>::quiet_NaN()), in_top = number(0);
  if (objective.counts_correct) {
    correct = counted(correct_samples(outputs, targets));
    if (objective.top > 0) in_top = counted(samples_in_top(outputs, targets, objective.top));
  }
  return torch::stack({loss.detach().to(torch::kDouble).mul(of_loss).reshape({}), correct, in_top,
                       number(samples)});
}

torch::Tensor loss_for_backward(const Objective& objective, const torch::Tensor& loss) {
  const auto factor = objective.share.loss_factor;
  return factor == 1 ? loss : loss * factor;
}

MetricSums metrics_of(std::span<const double> numbers) {
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

namespace {

// LibTorch's messages go on with a stack trace.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

Precision precision_named(const std::string& name) {
  return named<Precision>("precision", "precision", name);
}

void require_precision(Precision precision) {
  if (precision == Precision::fp32) return;
  try {
    const auto input = torch::ones({1, 1, 4, 4, 4}, torch::requires_grad());
    const auto weight = torch::ones({1, 1, 4, 4, 4}, torch::requires_grad());
    torch::Tensor down, up;
    {
      const AutocastGuard guard(precision);
      down = torch::conv3d(input, weight, {}, 2, 1);
      up = torch::conv_transpose3d(down, weight, {}, 2, 1);
    }
    up.to(torch::kFloat).sum().backward();
    // LibTorch 1.13 leaves transposed convolutions in float32.
    if (down.scalar_type() == torch::kFloat) throw Error("it computes in float32 instead");
  } catch (const std::exception& error) {
    throw InputError(fmt::format(
        "precision: this LibTorch ({}) can't train in {} on the CPU ({}); {}", TORCH_VERSION,
        precision == Precision::bf16 ? "bf16" : "fp16", first_line(error.what()),
        precision == Precision::bf16 ? "use training.precision=fp32"
                                     : "use training.precision=bf16, which has the range of "
                                       "float32 and needs no loss scale"));
  }
}

torch::Tensor forward_for(const Objective& objective, Network& network,
                          const torch::Tensor& input) {
  const auto precision = objective.precision;
  const DeviceNorm norms(objective.device_norm);
  const UseKernels kernels(objective.kernels);
  if (precision == Precision::fp32) return network.forward(input);
  torch::Tensor outputs;
  {
    const AutocastGuard guard(precision, input.device().type());
    outputs = network.forward(input);
  }
  return outputs.to(torch::kFloat);
}

namespace {

// How ranks that work through batches on their own agree to leave after the same one: each round's
// answers are added up on their way while the next batch is worked on.
class StopAgreement {
 public:
  // `batches`: of this rank; ranks may have different numbers. Collective.
  StopAgreement(Communicator communicator, std::int64_t batches,
                std::function<bool()> stop_requested);

  // After a batch. True: all ranks stop here. Collective for as many batches as every rank has.
  [[nodiscard]] bool stops();
  // Behind the last batch. Collective where stops() never was true.
  [[nodiscard]] bool stops_at_end();

 private:
  struct Round {
    Work work;
    std::shared_ptr<std::int64_t> requests;
  };

  [[nodiscard]] bool is_asked_in_last_round();

  Communicator communicator_;
  std::function<bool()> stop_requested_;
  std::int64_t rounds_;
  std::int64_t round_ = 0;
  Round last_;
};

StopAgreement::StopAgreement(Communicator communicator, std::int64_t batches,
                             std::function<bool()> stop_requested)
    : communicator_(std::move(communicator)),
      stop_requested_(std::move(stop_requested)),
      rounds_(all_reduce_value(communicator_, batches, ReduceOp::min)) {}

bool StopAgreement::stops() {
  if (round_ == rounds_) return false;
  ++round_;
  Round next;
  next.requests = std::make_shared<std::int64_t>(stop_requested_() ? 1 : 0);
  next.work = communicator_.all_reduce_async(std::span(next.requests.get(), 1), ReduceOp::sum,
                                             {.name = "requests to stop", .owner = next.requests});
  const bool is_asked = is_asked_in_last_round();
  if (is_asked) next.work.wait();
  last_ = std::move(next);
  return is_asked;
}

bool StopAgreement::stops_at_end() {
  return is_asked_in_last_round();
}

bool StopAgreement::is_asked_in_last_round() {
  if (!last_.requests) return false;
  last_.work.wait();
  return *last_.requests > 0;
}

// `agreement`: none where nobody may stop.
std::optional<MetricSums> evaluate_all(const Communicator& communicator, Network& network,
                                       const Objective& objective, Loader& loader,
                                       ConfusionMatrix* matrix, const EvaluationProgress& progress,
                                       std::optional<StopAgreement> agreement) {
  const torch::NoGradGuard no_gradient;
  const auto& loss = objective.validation_loss ? objective.validation_loss : objective.loss;
  const auto device = device_of(network);
  const auto sums = torch::zeros({4}, torch::TensorOptions(torch::kDouble).device(device));
  std::optional<ConfusionMatrix> mine;
  if (matrix != nullptr) mine.emplace(matrix->classes());
  network.eval();
  loader.deliver_to(device);
  loader.start_epoch(0);
  const auto tell = [&, total = loader.batches()](std::int64_t done) {
    if (progress) progress(done, total);
  };
  tell(0);
  bool is_stopped = false;
  for (std::int64_t done = 0; const auto batch = is_stopped ? std::nullopt : loader.next();) {
    const torch::Tensor outputs = forward_for(objective, network, batch->input);
    sums.add_(metric_sums(objective, loss(outputs, batch->target), outputs, batch->target));
    if (mine) mine->add(outputs, batch->target);
    tell(++done);
    is_stopped = agreement && agreement->stops();
  }
  network.train();
  if (is_stopped || (agreement && agreement->stops_at_end())) return std::nullopt;
  auto values = LateNumbers(sums).get();
  communicator.all_reduce(std::span(values), ReduceOp::sum, {.name = "metrics"});
  if (mine) {
    communicator.all_reduce(mine->counts(), ReduceOp::sum, {.name = "confusion matrix"});
    matrix->merge(*mine);
  }
  return metrics_of(values);
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
