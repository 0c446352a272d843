#include "kolo/parallel/accumulation_hook.h"

#include <torch/csrc/autograd/function_hook.h>

namespace kolo {

namespace {

class AfterAccumulation final : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::function<void()> call) : call_(std::move(call)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

std::shared_ptr<torch::autograd::Node> call_after_accumulation(const torch::Tensor& parameter,
                                                               std::function<void()> call) {
  auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
  accumulator->add_post_hook(std::make_unique<AfterAccumulation>(std::move(call)));
  return accumulator;
}

}  // namespace kolo
