#include "kolo/parallel/gradient_hook.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>

#include "kolo/base/error.h"
#include "kolo/base/gradient_destination.h"

namespace kolo {

namespace {

class AfterAccumulation final : public torch::autograd::FunctionPostHook,
                                public GradientDestination {
 public:
  AfterAccumulation(std::function<void()> call, std::function<std::shared_ptr<void>()> take,
                    std::weak_ptr<const void> averager)
      : call_(std::move(call)), take_(std::move(take)), averager_(std::move(averager)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

  [[nodiscard]] std::shared_ptr<void> take() override { return take_ ? take_() : nullptr; }

  [[nodiscard]] bool has_averager() const { return !averager_.expired(); }

 private:
  std::function<void()> call_;
  std::function<std::shared_ptr<void>()> take_;
  std::weak_ptr<const void> averager_;
};

}  // namespace

GraphNode call_after_accumulation(const torch::Tensor& parameter, std::function<void()> call,
                                  std::function<std::shared_ptr<void>()> take,
                                  std::weak_ptr<const void> averager) {
  auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  accumulator->add_post_hook(
      std::make_unique<AfterAccumulation>(std::move(call), std::move(take), std::move(averager)));
  return accumulator;
}

void require_no_averager(const torch::Tensor& parameter, const std::string& name) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!accumulator) return;
  for (const auto& hook : accumulator->post_hooks()) {
    const auto* const ours = dynamic_cast<const AfterAccumulation*>(hook.get());
    if (ours == nullptr || !ours->has_averager()) continue;
    throw Error(fmt::format(
        "parallel: the gradient of {} is averaged by another reducer or optimizer of kolo's "
        "already, and can have one at a time: make one over all modules and tensors that are "
        "trained, or destroy the other one first",
        name));
  }
}

}  // namespace kolo
