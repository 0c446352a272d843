#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/base/random.h"
#include "kolo/parallel/halo_exchange.h"
#include "parallel/spatial/spatial_cases.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

AxisLayer random_layer(CounterRandom& random) {
  AxisLayer layer{.kernel = 1 + random.below(5),
                  .stride = 1 + random.below(3),
                  .dilation = 1 + random.below(2),
                  .is_transposed = random.below(2) == 0};
  layer.padding = random.below(static_cast<std::uint32_t>(layer.dilation * (layer.kernel - 1)) + 1);
  return layer;
}

// A layer that can be cut among so many ranks, if a random one can.
std::optional<LayerCut> random_cut(CounterRandom& random, int ranks) {
  const auto layer = random_layer(random);
  const auto length = ranks * (1 + random.below(5)) + random.below(3);
  try {
    auto cut = cut_layer(layer, cut_evenly(length, ranks));
    if (!cut.is_whole()) return cut;
  } catch (const InputError&) {  // it leaves no row
  }
  return std::nullopt;
}

std::vector<HaloAxis> random_axes(CounterRandom& random, const DeviceMesh& mesh,
                                  std::size_t tensor_axes) {
  std::vector<HaloAxis> axes;
  for (std::size_t axis = 0; axis < tensor_axes; ++axis) {
    std::optional<LayerCut> cut;
    while (!cut) cut = random_cut(random, mesh.length(spatial_axes[axis]));
    axes.push_back({axis, *cut});
  }
  return axes;
}

// Whole numbers, of which sums are exact.
torch::Tensor whole_numbers(const std::vector<std::int64_t>& shape, double frequency,
                            torch::ScalarType type) {
  return (waves(shape, frequency) * 10).round().to(type);
}

struct Halos {
  std::vector<std::int64_t> whole = {2, 3};  // shape of the tensor that is cut
  std::vector<RowRange> owned, extended;     // this rank's, by axis
};

Halos halos_of(const DeviceMesh& mesh, const std::vector<HaloAxis>& axes) {
  Halos halos;
  for (const auto& halo : axes) {
    const auto coordinate = mesh.coordinate(spatial_axes[halo.axis]);
    halos.whole.push_back(halo.cut.exchanged().length());
    halos.owned.push_back(halo.cut.exchanged().rows(coordinate));
    halos.extended.push_back(halo.cut.extended(coordinate));
  }
  return halos;
}

// The rows of a whole tensor, also those beyond its border.
torch::Tensor rows_of(torch::Tensor whole, const std::vector<HaloAxis>& axes,
                      const std::vector<RowRange>& rows) {
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const auto dimension = static_cast<std::int64_t>(axis) + 2;
    const auto length = whole.size(dimension);
    const auto numbers = torch::arange(rows[axis].begin, rows[axis].end, torch::kLong);
    whole = whole.index_select(dimension, numbers.clamp(0, length - 1));
    const auto outside = torch::logical_or(numbers < 0, numbers >= length).nonzero().view({-1});
    whole.index_fill_(dimension, outside, 0);
  }
  return whole;
}

double dot(const DeviceMesh& mesh, const torch::Tensor& a, const torch::Tensor& b) {
  return all_reduce_value(mesh.spatial(), (a * b).sum().item<double>());
}

// One random plan: rows are the right ones, and fold is the adjoint, exactly.
void expect_exact(const DeviceMesh& mesh, const std::vector<HaloAxis>& axes,
                  torch::ScalarType type) {
  const auto halos = halos_of(mesh, axes);
  const auto whole = whole_numbers(halos.whole, .7, type);
  const auto own = rows_of(whole, axes, halos.owned).detach().requires_grad_();
  const auto extended = extend_halos(mesh, own, axes);
  ASSERT_TRUE(torch::equal(extended, rows_of(whole, axes, halos.extended)));

  // Different on all ranks.
  const auto made = whole_numbers(extended.sizes().vec(), .3 + mesh.spatial().rank(), type);
  const auto folded = fold_halos(mesh, made, axes);
  ASSERT_EQ(folded.sizes(), own.sizes());
  EXPECT_EQ(dot(mesh, extended.detach(), made), dot(mesh, own, folded));
  extended.backward(made);
  EXPECT_TRUE(torch::equal(own.grad(), folded));

  auto made_again = made.clone().requires_grad_();
  fold_halos(mesh, made_again, axes).backward(own.detach());
  EXPECT_TRUE(torch::equal(made_again.grad(), extended));
}

RANK_TEST(Halos, FoldIsTheAdjointOfExtend) {
  for (const auto& lengths : spatial_lengths(communicator.size())) {
    const DeviceMesh mesh(communicator, {.data = 1, .spatial = lengths});
    CounterRandom random(7, 1, lengths.size());
    for (int i = 0; i < 8; ++i) {
      const auto tensor_axes =
          std::max<std::size_t>(1, lengths.size()) +
          random.below(static_cast<std::uint32_t>(4 - std::max<std::size_t>(1, lengths.size())));
      const auto axes = random_axes(random, mesh, tensor_axes);
      expect_exact(mesh, axes, i % 2 == 0 ? torch::kDouble : torch::kFloat);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

RANK_TEST(Halos, GroupsThatShareSamplesDoNotMix) {
  if (communicator.size() % 2 != 0) return;
  const DeviceMesh mesh(communicator, {.data = 2, .spatial = {communicator.size() / 2, 1}});
  const auto sample = mesh.coordinate(MeshAxis::data);
  const std::vector<HaloAxis> axes = {
      {0, cut_layer({.kernel = 3, .padding = 1}, cut_evenly(9, communicator.size() / 2))}};
  const auto halos = halos_of(mesh, axes);
  const auto whole = waves({1, 2, 9, 4}, 1. + sample);
  const auto own = rows_of(whole, axes, halos.owned);
  EXPECT_TRUE(torch::equal(extend_halos(mesh, own, axes), rows_of(whole, axes, halos.extended)));
}

RANK_TEST(Halos, MemoryFormatsAreKeptAndMayDiffer) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size()}});
  const std::vector<HaloAxis> axes = {
      {0, cut_layer({.kernel = 3, .padding = 1}, cut_evenly(17, communicator.size()))}};
  const auto halos = halos_of(mesh, axes);
  const auto whole = waves({1, 3, 17, 4, 5}, .7, torch::kBFloat16);
  const auto format = mesh.spatial().rank() % 2 == 0 ? torch::MemoryFormat::ChannelsLast3d
                                                     : torch::MemoryFormat::Contiguous;
  const auto own = rows_of(whole, axes, halos.owned).contiguous(format);
  const auto extended = extend_halos(mesh, own, axes);
  EXPECT_TRUE(extended.is_contiguous(format));
  EXPECT_TRUE(torch::equal(extended, rows_of(whole, axes, halos.extended)));
  EXPECT_TRUE(fold_halos(mesh, extended, axes).is_contiguous(format));
}

RANK_TEST(Halos, SecondDerivatives) {
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {communicator.size()}});
  const std::vector<HaloAxis> axes = {
      {0, cut_layer({.kernel = 3, .padding = 1}, cut_evenly(17, communicator.size()))}};
  const auto halos = halos_of(mesh, axes);
  auto own = rows_of(waves({1, 1, 17}, .7), axes, halos.owned).requires_grad_();
  const auto extended = extend_halos(mesh, own, axes);
  const auto first = torch::autograd::grad({extended.pow(3).sum()}, {own}, {}, true, true)[0];
  const auto second = torch::autograd::grad({first.sum()}, {own})[0];
  // fold(6 extend(x)): rows that are read twice count twice.
  const auto expected = fold_halos(mesh, 6 * extend_halos(mesh, own.detach(), axes), axes);
  EXPECT_LT(relative_difference(second, expected), 1e-14);
}

RANK_TEST(Halos, WrongTensorsAreErrorsBeforeAnythingIsSent) {
  const auto ranks = communicator.size();
  const DeviceMesh mesh(communicator, {.data = 1, .spatial = {ranks}});
  const std::vector<HaloAxis> axes = {
      {0, cut_layer({.kernel = 3, .padding = 1}, cut_evenly(3 * ranks, ranks))}};
  const auto extend = [&](const torch::Tensor& tensor, const std::vector<HaloAxis>& halos) {
    return message_of<Error>([&] { (void)extend_halos(mesh, tensor, halos); });
  };
  EXPECT_TRUE(says(extend(torch::zeros({1, 1, 4}), axes), {"has 4 rows along axis 0"}));
  EXPECT_TRUE(says(extend(torch::zeros({3, 3}), axes), {"[N, C, L]"}));
  EXPECT_TRUE(says(extend(torch::zeros({1, 1, 3}, torch::kLong), axes), {"floating dtype"}));
  EXPECT_TRUE(says(extend(torch::zeros({1, 1, 3}), {{1, axes[0].cut}}), {"axis 1"}));
  const auto others = cut_layer({.kernel = 3, .padding = 1}, cut_evenly(20, ranks + 1));
  EXPECT_TRUE(says(extend(torch::zeros({1, 1, 3}), {{0, others}}), {"expected"}));
}

}  // namespace

}  // namespace kolo::testing
