#pragma once

#include <functional>
#include <memory>

#include <torch/csrc/autograd/variable.h>

namespace kolo {

// Calls a function, on a thread of autograd's, each time backward has accumulated into the
// gradient of a parameter (a leaf that requires one). Keep what is returned for as long as it is
// to be called: autograd itself forgets the hook when no graph needs the parameter any more. The
// function may be called after that too, by a graph that is still there.
//
// `take`, if given, offers memory for the gradient (kolo/base/gradient_destination.h).
[[nodiscard]] std::shared_ptr<torch::autograd::Node> call_after_accumulation(
    const torch::Tensor& parameter, std::function<void()> call,
    std::function<std::shared_ptr<void>()> take = {});

}  // namespace kolo
