#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/tensor_collectives.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// Whole numbers that differ by rank and place and are exact in every dtype.
torch::Tensor values_of(int rank, std::vector<std::int64_t> shape, torch::ScalarType type) {
  const auto count = c10::multiply_integers(shape);
  return (torch::arange(count, torch::kLong) * 3 + rank * 5).remainder(7).view(shape).to(type);
}

torch::Tensor sum_of_ranks(int ranks, const std::vector<std::int64_t>& shape,
                           torch::ScalarType type) {
  torch::Tensor sum = torch::zeros(shape, torch::kDouble);
  for (int rank = 0; rank < ranks; ++rank) sum += values_of(rank, shape, type).to(torch::kDouble);
  return sum.to(type);
}

// The same values with their dimensions stored the other way round, in a wider memory.
torch::Tensor strided(const torch::Tensor& tensor) {
  auto shape = tensor.sizes().vec();
  std::reverse(shape.begin(), shape.end());
  shape.push_back(2);
  torch::Tensor view = torch::zeros(shape, tensor.options()).select(-1, 1);
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = tensor.dim() - 1 - static_cast<std::int64_t>(i);
  view = view.permute(order);
  view.copy_(tensor);
  return view;
}

const std::vector<std::vector<std::int64_t>> shapes = {{}, {5}, {3, 4}, {0, 5}, {2, 0}, {4, 3, 2}};

RANK_TEST(TensorCollectives, EveryFormOfAllReduce) {
  for (const DataType data_type : all_data_types) {
    const auto type = scalar_type_of(data_type);
    std::vector<torch::Tensor> several;
    for (const auto& shape : shapes) {
      SCOPED_TRACE(fmt::format("{} {} dimensions", name_of(data_type), shape.size()));
      const auto expected = sum_of_ranks(communicator.size(), shape, type);
      const auto mine = values_of(communicator.rank(), shape, type);
      const auto in_place = strided(mine);
      all_reduce(communicator, in_place);
      EXPECT_TRUE(in_place.equal(expected));
      EXPECT_TRUE(all_reduced(communicator, strided(mine)).equal(expected));
      const auto sent = strided(mine), awaited = strided(mine);
      broadcast(communicator, sent);
      EXPECT_TRUE(sent.equal(values_of(0, shape, type)));
      communicator.enqueue([&](const Communicator& ranks) { all_reduce(ranks, awaited); }).wait();
      EXPECT_TRUE(awaited.equal(expected));
      EXPECT_TRUE(mine.equal(values_of(communicator.rank(), shape, type)));
      several.push_back(strided(mine));
    }
    all_reduce(communicator, several);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      EXPECT_TRUE(several[i].equal(sum_of_ranks(communicator.size(), shapes[i], type)));
  }
}

RANK_TEST(TensorCollectives, SeveralTypesTravelTogether) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const std::vector<torch::ScalarType> types = {torch::kFloat, torch::kLong, torch::kFloat,
                                                torch::kBool, torch::kLong};
  std::vector<torch::Tensor> reduced, sent;
  for (const auto type : types) {
    reduced.push_back(values_of(rank, {2, 3}, type));
    sent.push_back(strided(values_of(rank, {3}, type)));
  }
  all_reduce(communicator, reduced);
  broadcast(communicator, sent, ranks - 1);
  const auto gathered = all_gather(communicator, reduced);
  const auto scattered = reduce_scatter(communicator, gathered, {.op = ReduceOp::max});
  for (std::size_t i = 0; i < types.size(); ++i) {
    EXPECT_TRUE(reduced[i].equal(sum_of_ranks(ranks, {2, 3}, types[i])));
    EXPECT_TRUE(sent[i].equal(values_of(ranks - 1, {3}, types[i])));
    EXPECT_TRUE(gathered[i].equal(reduced[i].repeat({ranks, 1})));
    EXPECT_TRUE(scattered[i].equal(reduced[i]));
  }
}

RANK_TEST(TensorCollectives, ScalesBeforeAndBehind) {
  const int rank = communicator.rank(), ranks = communicator.size();
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    const auto tensor = values_of(rank, {3, 2}, type).t();
    const auto expected = sum_of_ranks(ranks, {3, 2}, type).t() * .125;
    const ReduceOptions options{.prescale = .5, .postscale = .25};
    EXPECT_TRUE(all_reduced(communicator, tensor, options).equal(expected));
    EXPECT_TRUE(reduce_scatter(communicator, tensor.repeat({ranks, 1}), options).equal(expected));
    EXPECT_TRUE(tensor.equal(values_of(rank, {3, 2}, type).t()));
  }
  const auto whole = torch::full({2}, 5 + rank, torch::kInt);
  all_reduce(communicator, whole, {.op = ReduceOp::min, .prescale = 1.5, .postscale = .5});
  EXPECT_TRUE(whole.eq(3).all().item<bool>());  // 5 x 1.5 is 7, half of that 3
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)all_reduced(communicator, torch::ones({2}, torch::kBool),
                                       {.prescale = 2});
                   }),
                   {"booleans can't be scaled"}));
  EXPECT_TRUE(says(
      message_of<Error>([&] { all_reduce(communicator, torch::zeros({2}, torch::kComplexFloat)); }),
      {"convert to one of"}));
}

RANK_TEST(TensorCollectives, RowsOfAnyNumberAreGathered) {
  const int rank = communicator.rank(), ranks = communicator.size();
  for (const DataType data_type : all_data_types) {
    const auto type = scalar_type_of(data_type);
    for (const int first : {0, 1, 3}) {
      const auto part = [&](int r) { return values_of(r, {r == 0 ? first : r + 1, 2, 2}, type); };
      std::vector<torch::Tensor> parts;
      for (int r = 0; r < ranks; ++r) parts.push_back(part(r));
      const auto expected = torch::cat(parts);
      EXPECT_TRUE(all_gather(communicator, strided(part(rank))).equal(expected));
      const auto several = all_gather(communicator, {part(rank), torch::tensor(rank), part(rank)});
      EXPECT_TRUE(several[0].equal(expected));
      EXPECT_TRUE(several[1].equal(torch::arange(ranks, torch::kLong)));
      EXPECT_TRUE(several[2].equal(expected));
    }
  }
}

RANK_TEST(TensorCollectives, RowsAreScatteredUnevenly) {
  const int rank = communicator.rank(), ranks = communicator.size();
  for (const std::int64_t rows : {0, 1, 2, 5, 6}) {
    const auto whole = sum_of_ranks(ranks, {rows, 3}, torch::kFloat);
    const auto begin = [&](int r) {
      return rows / ranks * r + std::min<std::int64_t>(rows % ranks, r);
    };
    const auto expected = whole.slice(0, begin(rank), begin(rank + 1));
    const auto mine = values_of(rank, {rows, 3}, torch::kFloat);
    EXPECT_TRUE(reduce_scatter(communicator, strided(mine)).equal(expected));
    const auto several = reduce_scatter(communicator, {mine, mine.to(torch::kLong), mine});
    EXPECT_TRUE(several[1].equal(expected.to(torch::kLong)));
    EXPECT_TRUE(several[2].equal(expected));
  }
}

RANK_TEST(TensorCollectives, RowsAreExchanged) {
  const int rank = communicator.rank(), ranks = communicator.size();
  // Rank r sends (r + receiver) % 3 rows of the value 10 r + receiver.
  std::vector<std::int64_t> sent, received;
  std::vector<torch::Tensor> out, in;
  for (int r = 0; r < ranks; ++r) {
    sent.push_back((rank + r) % 3);
    received.push_back((rank + r) % 3);
    out.push_back(torch::full({sent.back(), 2}, 10 * rank + r, torch::kShort));
    in.push_back(torch::full({received.back(), 2}, 10 * r + rank, torch::kShort));
  }
  const auto result = all_to_all(communicator, strided(torch::cat(out)), sent);
  EXPECT_TRUE(result.tensor.equal(torch::cat(in)));
  EXPECT_EQ(result.splits, received);
  const auto even = torch::arange(2 * ranks, torch::kDouble);
  const auto swapped = all_to_all(communicator, even);
  EXPECT_EQ(swapped.splits, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 2));
  EXPECT_TRUE(swapped.tensor.equal(
      torch::tensor({2. * rank, 2. * rank + 1}).to(torch::kDouble).repeat({ranks})));
}

RANK_TEST(TensorCollectives, MismatchesAreNamedOnEveryRank) {
  if (communicator.size() == 1) return;
  const bool is_last = communicator.rank() == communicator.size() - 1;
  const auto last = communicator.size() - 1;
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)all_gather(communicator, torch::zeros({2, is_last ? 5 : 3}));
                   }),
                   {fmt::format("rank 0 passed float32 [*, 3], rank {} float32 [*, 5]", last)}));
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)all_gather(communicator,
                                      torch::zeros({2}, is_last ? torch::kLong : torch::kFloat));
                   }),
                   {fmt::format("rank 0 passed float32 [*], rank {} int64 [*]", last)}));
  std::vector<std::int64_t> splits(static_cast<std::size_t>(communicator.size()), 1);
  if (is_last) splits.back() = 7;
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)all_to_all(communicator, torch::zeros({communicator.size(), 2}), splits);
                   }),
                   {is_last ? "1, 7] don't fit" : fmt::format("rank {} passed arguments", last)}));
  all_reduce(communicator, torch::ones({2}));  // and the ranks still keep step
}

RANK_TEST(TensorCollectives, BytesAndMetrics) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const std::string binary("a\0b\xff", 4);
  EXPECT_EQ(broadcast_bytes(communicator, rank == ranks - 1 ? binary : "other", ranks - 1), binary);
  EXPECT_EQ(broadcast_bytes(communicator, ""), "");
  const auto all = all_gather_bytes(communicator, std::string(static_cast<std::size_t>(rank), 'x'));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r)
    EXPECT_EQ(all[static_cast<std::size_t>(r)], std::string(static_cast<std::size_t>(r), 'x'));

  double total = 0, weights = 0;
  for (int r = 0; r < ranks; ++r) {
    total += (r + 1.5) * r * r;
    weights += r + 1.5;
  }
  EXPECT_DOUBLE_EQ(average(communicator, rank * rank, rank + 1.5), total / weights);
  EXPECT_DOUBLE_EQ(average(communicator, rank == 0 ? 3 : NAN, rank == 0 ? 2 : 0), 3);
  const double factor = loss_factor(communicator, rank + 1.5);
  EXPECT_DOUBLE_EQ(average(communicator, factor * rank * rank), total / weights);
  EXPECT_DOUBLE_EQ(loss_factor(communicator, 0), 0);
  const auto mean = average(communicator, torch::full({2, 0}, 1., torch::kHalf));
  EXPECT_EQ(mean.scalar_type(), torch::kHalf);
  EXPECT_TRUE(average(communicator, torch::full({2}, 1. * rank), 4)
                  .allclose(torch::full({2}, (ranks - 1) / 2.)));
  const int last = ranks - 1;
  EXPECT_TRUE(
      says(message_of<InputError>([&] { (void)average(communicator, 1, rank == last ? -1.5 : 1); }),
           {fmt::format("average: rank {} passed the weight -1.5;", last)}));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { (void)loss_factor(communicator, rank == last ? NAN : 1); }),
           {fmt::format("loss_factor: rank {} passed the weight nan;", last)}));
  if (ranks == 1) return;
  const auto of_two =
      message_of<InputError>([&] { (void)average(communicator, 1, rank < 2 ? -1 - rank : rank); });
  EXPECT_TRUE(says(of_two, {"2 ranks passed a weight that is negative or not finite"}));
  const auto own = fmt::format(", this one {};", -1 - rank);
  EXPECT_EQ(of_two.find(own) != std::string::npos, rank < 2) << of_two;
}

}  // namespace

}  // namespace kolo::testing
