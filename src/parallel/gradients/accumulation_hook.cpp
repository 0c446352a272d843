#include "kolo/parallel/accumulation_hook.h"

#include <torch/csrc/autograd/function_hook.h>

#include "kolo/base/gradient_destination.h"

namespace kolo {

namespace {

class AfterAccumulation final : public torch::autograd::FunctionPostHook,
                                public GradientDestination {
 public:
  AfterAccumulation(std::function<void()> call, std::function<std::shared_ptr<void>()> take)
      : call_(std::move(call)), take_(std::move(take)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

  [[nodiscard]] std::shared_ptr<void> take() override { return take_ ? take_() : nullptr; }

 private:
  std::function<void()> call_;
  std::function<std::shared_ptr<void>()> take_;
};

}  // namespace

std::shared_ptr<torch::autograd::Node> call_after_accumulation(
    const torch::Tensor& parameter, std::function<void()> call,
    std::function<std::shared_ptr<void>()> take) {
  auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  accumulator->add_post_hook(std::make_unique<AfterAccumulation>(std::move(call), std::move(take)));
  return accumulator;
}

}  // namespace kolo
