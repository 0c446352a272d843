#include "kolo/parallel/synchronize_buffers.h"

#include "kolo/parallel/tensor_collectives.h"
#include "parallel/tensors/distinct_tensors.h"

namespace kolo {

void synchronize_buffers(const Communicator& communicator, const torch::nn::Module& module) {
  if (communicator.size() == 1 || module.buffers().empty()) return;
  // A rank that has joined takes no part in the minimum.
  const int root = all_reduce_value(communicator, communicator.rank(), ReduceOp::min);
  std::vector<torch::Tensor> buffers;
  for (const auto& each : parallel::distinct_tensors(module.named_buffers()))
    buffers.push_back(each.tensor);
  broadcast(communicator, buffers, root);
}

}  // namespace kolo
