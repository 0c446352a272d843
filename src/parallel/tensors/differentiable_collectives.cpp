#include "kolo/parallel/differentiable_collectives.h"

#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/parallel/autograd_communicator.h"
#include "parallel/tensors/tensors.h"

namespace kolo::differentiable {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_linear(const ReduceOptions& options, const char* collective) {
  if (options.op == ReduceOp::sum || options.op == ReduceOp::average) return;
  throw Error(
      fmt::format("parallel: differentiable {}: {} has no gradient here; use sum or average",
                  collective, name_of(options.op)));
}

void keep_options(AutogradContext* context, const ReduceOptions& options) {
  context->saved_data["op"] = static_cast<std::int64_t>(options.op);
  context->saved_data["prescale"] = options.prescale;
  context->saved_data["postscale"] = options.postscale;
}

ReduceOptions kept_options(AutogradContext* context) {
  return {.op = static_cast<ReduceOp>(context->saved_data["op"].toInt()),
          .prescale = context->saved_data["prescale"].toDouble(),
          .postscale = context->saved_data["postscale"].toDouble()};
}

// Factor of the sum in a linear reduction.
double factor_of(const ReduceOptions& options, int ranks) {
  return options.prescale * options.postscale / (options.op == ReduceOp::average ? ranks : 1);
}

class AllReduce : public torch::autograd::Function<AllReduce> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tensor,
                               const Communicator& communicator, const ReduceOptions& options) {
    keep_communicator(context, communicator);
    keep_options(context, options);
    return kolo::all_reduced(communicator, tensor, options);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {
        differentiable::all_reduce(kept_communicator(context), gradients[0], kept_options(context)),
        {},
        {}};
  }
};

// This rank's rows of the sum over the ranks; the counterpart of an all-gather.
class SumOfOwnRows : public torch::autograd::Function<SumOfOwnRows> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tensor,
                               const Communicator& communicator, std::int64_t begin,
                               std::int64_t rows) {
    keep_communicator(context, communicator);
    return kolo::all_reduced(communicator, tensor).narrow(0, begin, rows).clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {differentiable::all_gather(kept_communicator(context), gradients[0]), {}, {}, {}};
  }
};

class AllGather : public torch::autograd::Function<AllGather> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& rows,
                               const Communicator& communicator) {
    keep_communicator(context, communicator);
    // A rank that has joined has no rows.
    const std::int64_t mine = rows.size(0);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(std::span(&mine, 1), std::span(counts));
    context->saved_data["begin"] =
        std::reduce(counts.begin(), counts.begin() + communicator.rank());
    context->saved_data["rows"] = rows.size(0);
    return kolo::all_gather(communicator, rows);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {SumOfOwnRows::apply(gradients[0], kept_communicator(context),
                                context->saved_data["begin"].toInt(),
                                context->saved_data["rows"].toInt()),
            {}};
  }
};

// The sum on root, zeros elsewhere; the counterpart of a broadcast.
class SumOnRoot : public torch::autograd::Function<SumOnRoot> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tensor,
                               const Communicator& communicator, std::int64_t root) {
    keep_communicator(context, communicator);
    context->saved_data["root"] = root;
    auto sum = kolo::all_reduced(communicator, tensor);
    return communicator.rank() == root ? sum : sum.zero_();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto root = static_cast<int>(context->saved_data["root"].toInt());
    return {differentiable::broadcast(kept_communicator(context), gradients[0], root), {}, {}};
  }
};

class Broadcast : public torch::autograd::Function<Broadcast> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tensor,
                               const Communicator& communicator, std::int64_t root) {
    keep_communicator(context, communicator);
    context->saved_data["root"] = root;
    auto result = tensor.clone();
    kolo::broadcast(communicator, result, static_cast<int>(root));
    return result;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {SumOnRoot::apply(gradients[0], kept_communicator(context),
                             context->saved_data["root"].toInt()),
            {},
            {}};
  }
};

class ReduceScatter : public torch::autograd::Function<ReduceScatter> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& rows,
                               const Communicator& communicator, const ReduceOptions& options) {
    keep_communicator(context, communicator);
    auto result = kolo::reduce_scatter(communicator, rows, options);
    communicator.require_all_ranks(
        "parallel: differentiable reduce-scatter: a rank has joined, so nobody has its rows of the "
        "result, and their gradients would be missing; use all_reduce() instead");
    context->saved_data["factor"] = factor_of(options, communicator.size());
    return result;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto gathered = differentiable::all_gather(kept_communicator(context), gradients[0]);
    return {gathered * context->saved_data["factor"].toDouble(), {}, {}};
  }
};

class AllToAll : public torch::autograd::Function<AllToAll> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& rows,
                               const Communicator& communicator,
                               const std::vector<std::int64_t>& splits,
                               std::vector<std::int64_t>& received) {
    auto result = kolo::all_to_all(communicator, rows, splits);
    keep_communicator(context, communicator);
    context->saved_data["splits"] = result.splits;
    received = std::move(result.splits);
    return result.tensor;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto splits = context->saved_data["splits"].toIntVector();
    return {differentiable::all_to_all(kept_communicator(context), gradients[0], splits).tensor,
            {},
            {},
            {}};
  }
};

}  // namespace

torch::Tensor all_reduce(const Communicator& communicator, const torch::Tensor& tensor,
                         const ReduceOptions& options) {
  check_linear(options, "all-reduce");
  return AllReduce::apply(tensor, communicator, options);
}

torch::Tensor all_gather(const Communicator& communicator, const torch::Tensor& tensor) {
  return AllGather::apply(as_rows(tensor), communicator);
}

torch::Tensor broadcast(const Communicator& communicator, const torch::Tensor& tensor, int root) {
  return Broadcast::apply(tensor, communicator, static_cast<std::int64_t>(root));
}

torch::Tensor reduce_scatter(const Communicator& communicator, const torch::Tensor& tensor,
                             const ReduceOptions& options) {
  check_linear(options, "reduce-scatter");
  return ReduceScatter::apply(as_rows(tensor), communicator, options);
}

ReceivedRows all_to_all(const Communicator& communicator, const torch::Tensor& tensor,
                        std::span<const std::int64_t> splits) {
  ReceivedRows received;
  const std::vector<std::int64_t> sent(splits.begin(), splits.end());
  received.tensor = AllToAll::apply(as_rows(tensor), communicator, sent, received.splits);
  return received;
}

}  // namespace kolo::differentiable
