#include "kolo/tensor_parallel/group_functions.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include "kolo/base/error.h"
#include "kolo/parallel/autograd_communicator.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum class GroupStep : std::int64_t { copy, reduce, scatter, gather, reduce_scatter, all_gather };

GroupStep conjugate_of(GroupStep step) {
  switch (step) {
    case GroupStep::copy:
      return GroupStep::reduce;
    case GroupStep::reduce:
      return GroupStep::copy;
    case GroupStep::scatter:
      return GroupStep::gather;
    case GroupStep::gather:
      return GroupStep::scatter;
    case GroupStep::reduce_scatter:
      return GroupStep::all_gather;
    case GroupStep::all_gather:
      return GroupStep::reduce_scatter;
  }
  throw Error("parallel: a function of a group that is none");
}

void require_divisible(const Communicator& group, const torch::Tensor& tensor,
                       std::int64_t dimension) {
  if (tensor.size(dimension) % group.size() == 0) return;
  throw InputError(
      fmt::format("parallel: dimension {} of a tensor of shape [{}] is to be cut among {} ranks; "
                  "make it a multiple of {}",
                  dimension, c10::Join(", ", tensor.sizes()), group.size(), group.size()));
}

// The rows are what the dimension counts.
torch::Tensor gathered(const Communicator& group, const torch::Tensor& tensor,
                       std::int64_t dimension) {
  const auto rows = tensor.movedim(dimension, 0).contiguous();
  auto shape = rows.sizes().vec();
  shape[0] *= group.size();
  const auto all = torch::empty(shape, rows.options());
  group.all_gather(buffer_of(rows), buffer_of(all), {.name = "tensor all-gather"});
  return all.movedim(0, dimension).contiguous();
}

torch::Tensor reduce_scattered(const Communicator& group, const torch::Tensor& tensor,
                               std::int64_t dimension) {
  require_divisible(group, tensor, dimension);
  const auto rows = tensor.movedim(dimension, 0).contiguous();
  auto shape = rows.sizes().vec();
  shape[0] /= group.size();
  const auto mine = torch::empty(shape, rows.options());
  group.reduce_scatter(buffer_of(rows), buffer_of(mine), ReduceOp::sum,
                       {.name = "tensor reduce-scatter"});
  return mine.movedim(0, dimension).contiguous();
}

torch::Tensor own_part(const Communicator& group, const torch::Tensor& tensor,
                       std::int64_t dimension) {
  require_divisible(group, tensor, dimension);
  const auto length = tensor.size(dimension) / group.size();
  return tensor.narrow(dimension, group.rank() * length, length).contiguous();
}

torch::Tensor done(const Communicator& group, const torch::Tensor& tensor, GroupStep step,
                   std::int64_t dimension) {
  switch (step) {
    case GroupStep::copy:
      return tensor;
    case GroupStep::reduce:
      return all_reduced(group, tensor, {.call = {.name = "tensor all-reduce"}});
    case GroupStep::scatter:
      return own_part(group, tensor, dimension);
    case GroupStep::reduce_scatter:
      return reduce_scattered(group, tensor, dimension);
    case GroupStep::gather:
    case GroupStep::all_gather:
      return gathered(group, tensor, dimension);
  }
  return tensor;
}

class GroupFunction : public torch::autograd::Function<GroupFunction> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tensor,
                               const Communicator& group, GroupStep step, std::int64_t dimension) {
    keep_communicator(context, group);
    context->saved_data["step"] = static_cast<std::int64_t>(step);
    context->saved_data["dimension"] = dimension;
    return done(group, tensor, step, dimension);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto step = static_cast<GroupStep>(context->saved_data["step"].toInt());
    return {apply(gradients[0], kept_communicator(context), conjugate_of(step),
                  context->saved_data["dimension"].toInt()),
            {},
            {},
            {}};
  }
};

torch::Tensor applied(const Communicator& group, const torch::Tensor& tensor, GroupStep step,
                      std::int64_t dimension) {
  if (group.size() == 1) return tensor;
  return GroupFunction::apply(tensor, group, step,
                              dimension < 0 ? dimension + tensor.dim() : dimension);
}

}  // namespace

torch::Tensor copy_to_group(const Communicator& group, const torch::Tensor& tensor) {
  return applied(group, tensor, GroupStep::copy, 0);
}

torch::Tensor reduce_from_group(const Communicator& group, const torch::Tensor& tensor) {
  return applied(group, tensor, GroupStep::reduce, 0);
}

torch::Tensor scatter_to_group(const Communicator& group, const torch::Tensor& tensor,
                               std::int64_t dimension) {
  return applied(group, tensor, GroupStep::scatter, dimension);
}

torch::Tensor gather_from_group(const Communicator& group, const torch::Tensor& tensor,
                                std::int64_t dimension) {
  return applied(group, tensor, GroupStep::gather, dimension);
}

torch::Tensor reduce_scatter_from_group(const Communicator& group, const torch::Tensor& tensor,
                                        std::int64_t dimension) {
  return applied(group, tensor, GroupStep::reduce_scatter, dimension);
}

torch::Tensor all_gather_to_group(const Communicator& group, const torch::Tensor& tensor,
                                  std::int64_t dimension) {
  return applied(group, tensor, GroupStep::all_gather, dimension);
}

}  // namespace kolo
