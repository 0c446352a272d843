#include <cmath>
#include <string_view>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/nn/functional/loss.h>

#include "base/second_derivatives.h"
#include "kernels/fused.h"
#include "kernels/loops.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "nn/losses/loss_entry.h"
#include "nn/tensor_text.h"

namespace kolo {

namespace {

// Mean distance of float32 fields on the CPU, outputs in dense memory, in one pass that also finds
// the gradient.
class MeanDistance : public torch::autograd::Function<MeanDistance> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& outputs, const torch::Tensor& targets) {
    const auto slopes = outputs.requires_grad() ? torch::empty_like(outputs) : torch::Tensor();
    const auto count = static_cast<double>(outputs.numel());
    const auto sum = sum_of(outputs.detach(), targets, slopes, static_cast<float>(1 / count));
    context->save_for_backward({slopes});
    return torch::full({}, sum / count, outputs.options());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivatives("nn: l1");
    const auto slopes = context->get_saved_variables()[0];
    const bool is_one = gradients[0].item<double>() == 1;
    return {is_one ? slopes : slopes * gradients[0], torch::Tensor()};
  }

 private:
  // Adds up by parts that don't depend on the number of threads, so the sum doesn't either.
  static double sum_of(const torch::Tensor& outputs, const torch::Tensor& targets,
                       const torch::Tensor& slopes, float factor) {
    constexpr std::int64_t block = 1 << 15;
    const auto beside = outputs.strides() == targets.strides()
                            ? targets
                            : torch::empty_like(outputs).copy_(targets);
    const auto count = outputs.numel(), blocks = divide_up(count, block);
    std::vector<double> sums(static_cast<std::size_t>(blocks));
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto first = i * block;
        sums[static_cast<std::size_t>(i)] =
            sum_distances(std::min(block, count - first), outputs.data_ptr<float>() + first,
                          beside.data_ptr<float>() + first, factor,
                          slopes.defined() ? slopes.data_ptr<float>() + first : nullptr);
      }
    });
    double sum = 0;
    for (const double each : sums) sum += each;
    return sum;
  }
};

bool is_float_on_cpu(const torch::Tensor& fields) {
  return fields.device().is_cpu() && fields.scalar_type() == torch::kFloat &&
         fields.layout() == torch::kStrided;
}

torch::Tensor mean_distance(const torch::Tensor& outputs, const torch::Tensor& targets) {
  if (PlainKernels::are_wanted() || targets.requires_grad() || outputs.numel() == 0 ||
      !is_float_on_cpu(outputs) || !is_float_on_cpu(targets) ||
      !outputs.is_non_overlapping_and_dense())
    return torch::nn::functional::l1_loss(outputs, targets);
  return MeanDistance::apply(outputs, targets);
}

// LibTorch would stretch a shape that differs to the other's, [N] and [N, 1] to [N, N].
void require_numbers_of_one_shape(std::string_view loss, const torch::Tensor& outputs,
                                  const torch::Tensor& targets) {
  if (outputs.sizes() == targets.sizes() && targets.is_floating_point()) return;
  throw InputError(
      fmt::format("loss: {} of outputs {} and targets {}, expected numbers of one shape", loss,
                  shape_of(outputs), shape_of(targets)));
}

constexpr double density_exponent = 14;  // a field's first channel is ln(rho) / 14

torch::Tensor l1_of(const torch::Tensor& outputs, const torch::Tensor& targets, double lambda_rho) {
  require_numbers_of_one_shape("l1", outputs, targets);
  if (lambda_rho > 0 && outputs.dim() < 2) {
    throw InputError(fmt::format(
        "loss: l1 of outputs {}, expected [N, channels, ...] for lambda_rho", shape_of(outputs)));
  }
  const torch::Tensor loss = mean_distance(outputs, targets);
  if (lambda_rho == 0) return loss;
  const auto density = [](const torch::Tensor& fields) {
    return torch::exp(density_exponent * fields.select(1, 0));
  };
  return loss + lambda_rho * torch::nn::functional::l1_loss(density(outputs), density(targets));
}

}  // namespace

LossFunction make_l1(double lambda_rho) {
  if (!(lambda_rho >= 0) || !std::isfinite(lambda_rho)) {
    throw InputError(
        fmt::format("loss: lambda_rho is {}, expected a number of 0 or more", lambda_rho));
  }
  return [lambda_rho](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return l1_of(outputs, targets, lambda_rho);
  };
}

LossFunction make_mse() {
  return [](const torch::Tensor& outputs, const torch::Tensor& targets) {
    require_numbers_of_one_shape("mse", outputs, targets);
    return torch::nn::functional::mse_loss(outputs, targets.to(outputs.scalar_type()));
  };
}

namespace losses {

struct L1 {
  double lambda_rho = 0;  // the weight of the error in the density itself

  [[nodiscard]] LossFunction make() const { return make_l1(lambda_rho); }
};

template <typename Field>
void visit(Field& field, L1& loss) {
  field("lambda_rho", loss.lambda_rho, not_negative);
}

LossEntry l1() {
  auto entry =
      entry_of<L1>("l1", "the mean distance of numbers", {"mean_absolute_error", "mae", "l1_loss"});
  entry.has_classes = false;
  return entry;
}

struct Mse : NoSettings {
  [[nodiscard]] LossFunction make() const { return make_mse(); }
};

LossEntry mse() {
  auto entry =
      entry_of<Mse>("mse", "the mean of squared differences", {"mean_squared_error", "mse_loss"});
  entry.has_classes = false;
  return entry;
}

}  // namespace losses
}  // namespace kolo
