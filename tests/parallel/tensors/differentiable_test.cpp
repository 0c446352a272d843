#include <functional>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/parallel/differentiable_collectives.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

using Tensors = std::vector<torch::Tensor>;

torch::Tensor input_of(int rank, std::int64_t rows) {
  return torch::sin(torch::arange(rows * 2, torch::kDouble) * 1.3 + rank).view({rows, 2});
}

// A curved loss, another one on every rank.
torch::Tensor loss_of(int rank, const torch::Tensor& output) {
  const auto slope = torch::arange(1, output.numel() + 1, torch::kDouble).view(output.sizes());
  return (output.pow(3) * slope * (rank + 1)).sum();
}

// `collective` on this rank's input against `serial`, which makes every rank's output from all
// inputs: first and second derivatives of the sum of the losses.
void compare(const Communicator& communicator, const std::vector<std::int64_t>& rows,
             const std::function<torch::Tensor(const torch::Tensor&)>& collective,
             const std::function<Tensors(const Tensors&)>& serial) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  Tensors inputs;
  for (int r = 0; r < communicator.size(); ++r)
    inputs.push_back(input_of(r, rows[static_cast<std::size_t>(r)]).requires_grad_());
  const auto expected = serial(inputs);
  auto total = torch::zeros({}, torch::kDouble);
  for (int r = 0; r < communicator.size(); ++r)
    total = total + loss_of(r, expected[static_cast<std::size_t>(r)]);
  auto first = torch::autograd::grad({total}, inputs, {}, true, true);
  auto squares = torch::zeros({}, torch::kDouble);
  for (const auto& gradient : first) squares = squares + gradient.square().sum();
  const auto second = torch::autograd::grad({squares}, inputs);

  const auto input = input_of(communicator.rank(), rows[rank]).requires_grad_();
  const auto output = collective(input);
  EXPECT_TRUE(output.allclose(expected[rank]));
  const auto mine =
      torch::autograd::grad({loss_of(communicator.rank(), output)}, {input}, {}, true, true)[0];
  EXPECT_TRUE(mine.allclose(first[rank]));
  EXPECT_TRUE(torch::autograd::grad({mine.square().sum()}, {input})[0].allclose(second[rank]));
}

torch::Tensor sum_of(const Tensors& tensors) {
  return torch::stack(tensors).sum(0);
}

RANK_TEST(Differentiable, AllReduceHasGradients) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  for (const auto op : {ReduceOp::sum, ReduceOp::average}) {
    const ReduceOptions options{.op = op, .prescale = .5, .postscale = 3};
    const double factor = op == ReduceOp::sum ? 1.5 : 1.5 / communicator.size();
    compare(
        communicator, std::vector<std::int64_t>(ranks, 3),
        [&](const auto& input) { return differentiable::all_reduce(communicator, input, options); },
        [&](const Tensors& inputs) { return Tensors(ranks, sum_of(inputs) * factor); });
  }
}

RANK_TEST(Differentiable, AllGatherHasGradients) {
  std::vector<std::int64_t> rows;
  for (int rank = 0; rank < communicator.size(); ++rank) rows.push_back((rank + 2) % 3 + 1);
  compare(
      communicator, rows,
      [&](const auto& input) { return differentiable::all_gather(communicator, input); },
      [&](const Tensors& inputs) { return Tensors(inputs.size(), torch::cat(inputs)); });
}

RANK_TEST(Differentiable, BroadcastHasGradients) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const int root = communicator.size() - 1;
  compare(
      communicator, std::vector<std::int64_t>(ranks, 2),
      [&](const auto& input) { return differentiable::broadcast(communicator, input, root); },
      [&](const Tensors& inputs) {
        Tensors outputs(ranks, inputs.back());
        outputs.back() = inputs.back() + 0 * sum_of(inputs);  // so that all have a gradient
        return outputs;
      });
}

RANK_TEST(Differentiable, ReduceScatterHasGradients) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  for (const std::int64_t rows : {2 * communicator.size(), 5}) {
    compare(
        communicator, std::vector<std::int64_t>(ranks, rows),
        [&](const auto& input) {
          return differentiable::reduce_scatter(communicator, input,
                                                {.op = ReduceOp::average, .postscale = 2});
        },
        [&](const Tensors& inputs) {
          return (sum_of(inputs) * (2. / communicator.size())).tensor_split(communicator.size());
        });
  }
}

RANK_TEST(Differentiable, AllToAllHasGradients) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  // Rank r sends r + 1 rows to everybody.
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 0; r < communicator.size(); ++r)
    rows.push_back((r + 1) * communicator.size());
  compare(
      communicator, rows,
      [&](const auto& input) {
        return differentiable::all_to_all(communicator, input,
                                          std::vector<std::int64_t>(ranks, communicator.rank() + 1))
            .tensor;
      },
      [&](const Tensors& inputs) {
        Tensors outputs;
        for (std::size_t receiver = 0; receiver < ranks; ++receiver) {
          Tensors parts;
          for (const auto& input : inputs)
            parts.push_back(input.chunk(communicator.size())[receiver]);
          outputs.push_back(torch::cat(parts));
        }
        return outputs;
      });
}

RANK_TEST(Differentiable, AMaximumHasNone) {
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)differentiable::all_reduce(communicator, torch::ones({2}),
                                                      {.op = ReduceOp::max});
                   }),
                   {"use sum or average"}));
}

}  // namespace

}  // namespace kolo::testing
