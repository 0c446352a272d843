#include "run/box_prediction.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

// Share of free memory that tiles may take; the network and the libraries need more than is known.
constexpr double usable_share = .7;

// Bytes that this rank may use on its device; none: unknown.
std::optional<double> usable_memory(const Communicator& communicator, const torch::Device& device) {
  if (const auto use = memory_use(device))
    return usable_share * static_cast<double>(use->device.free_bytes);
  const auto available = available_memory();
  if (!available) return std::nullopt;
  return usable_share * static_cast<double>(*available) / communicator.topology().local_size;
}

// Most cells that every rank can compute at once.
std::int64_t most_cells(const Communicator& communicator, const torch::Device& device,
                        double bytes_per_cell) {
  constexpr auto unknown = std::numeric_limits<std::int64_t>::max();
  const auto usable = usable_memory(communicator, device);
  const auto cells = usable ? static_cast<std::int64_t>(*usable / bytes_per_cell) : unknown;
  return all_reduce_value(communicator, cells, ReduceOp::min);
}

[[noreturn]] void refuse_smallest(const TileRequest& request, std::int64_t cells) {
  const auto& reach = *request.reach;
  const auto edge =
      std::min(request.size, reach.multiple + reach.margin_below() + reach.margin_above());
  const auto bytes_of = [&](double count) {
    return format_bytes(static_cast<std::uint64_t>(count * request.bytes_per_cell));
  };
  throw Error(fmt::format(
      "predict: the smallest tiles read {}^3 cells, which take about {}, but a rank can have {}; "
      "start fewer ranks per node, or name the size (--tile {}) to try it nevertheless",
      edge, bytes_of(static_cast<double>(edge * edge * edge)), bytes_of(static_cast<double>(cells)),
      reach.multiple));
}

}  // namespace

Region region_of(const std::array<RowRange, 3>& rows) {
  Region region;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    region.start[axis] = rows[axis].begin;
    region.extent[axis] = rows[axis].size();
  }
  return region;
}

std::optional<AxisReach> reach_of(const Network& network) {
  const auto layers = network.field_layers();
  std::optional<AxisReach> reach;
  for (std::size_t axis = 0; axis < 3 && !layers.empty(); ++axis) {
    const auto found = reach_of(layers_along(layers, axis));
    if (reach && *reach != found) return std::nullopt;  // tiles are cubes
    reach = found;
  }
  return reach;
}

double bytes_per_cell(Network& network, std::int64_t channels, const AxisReach& reach) {
  const auto edge = reach.multiple;
  const std::array shape{channels, edge, edge, edge};
  double numbers = 0;
  for (const auto& layer : summarize(network, shape).layers) {
    numbers += std::accumulate(layer.output_shape.begin(), layer.output_shape.end(), 1.,
                               std::multiplies<>());
  }
  const auto cells = static_cast<double>(edge * edge * edge);
  constexpr auto fields = static_cast<double>(nbody_channels + 2 * hydro_channels);
  return sizeof(float) * (numbers / cells + fields);
}

torch::Tensor TilePredictor::predict(const Tile& tile, std::vector<float>& scratch) const {
  const auto read = region_of(tile.read);
  const auto& extent = read.extent;
  auto input = torch::empty({1, nbody_channels, extent[0], extent[1], extent[2]});
  box.read_region(BoxField::nbody, read, scratch,
                  {input.data_ptr<float>(), static_cast<std::size_t>(input.numel())});
  auto output = in_phase("prediction", device,
                         [&] { return forward_for(objective, network, input.to(device)); });
  const std::array expected{std::int64_t{1}, hydro_channels, extent[0], extent[1], extent[2]};
  if (!std::ranges::equal(output.sizes(), expected)) {
    throw Error(fmt::format("predict: the network makes [{}] of a tile, expected [{}]",
                            fmt::join(output.sizes(), ", "), fmt::join(expected, ", ")));
  }
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto& core = tile.core[axis];
    output = output.narrow(static_cast<std::int64_t>(axis) + 2, core.begin - tile.read[axis].begin,
                           core.size());
  }
  return output[0].to(torch::kCPU, torch::kFloat).contiguous();
}

std::vector<Tile> plan_tiles(const Communicator& communicator, const torch::Device& device,
                             const TileRequest& request) {
  const auto size = request.size;
  if (!request.reach) return cut_in_tiles(size, {size, size, size}, {});
  if (request.core) {
    const auto core = std::min(*request.core, size);
    return cut_in_tiles(size, {core, core, core}, *request.reach);
  }
  const auto cells = most_cells(communicator, device, request.bytes_per_cell);
  const auto core = choose_core(size, *request.reach, cells, communicator.size());
  if (!core) refuse_smallest(request, cells);
  return cut_in_tiles(size, *core, *request.reach);
}

}  // namespace kolo
