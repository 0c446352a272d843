#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/boxes/field_source.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/data/box_files.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/train/objective.h"
#include "kolo/train/observe/format.h"
#include "run/prediction.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// Share of free memory that tiles may take; the network and the libraries need more than is known.
constexpr double usable_fraction = .7;

// Bytes that this rank may use on its device; none: unknown.
std::optional<double> usable_memory(const Communicator& communicator, const torch::Device& device) {
  if (const auto use = memory_use(device))
    return usable_fraction * static_cast<double>(use->device.free_bytes);
  const auto available = available_memory();
  if (!available) return std::nullopt;
  return usable_fraction * static_cast<double>(*available) / communicator.topology().local_size;
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

namespace {

Region region_of(const std::array<RowRange, 3>& rows) {
  Region region;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    region.start[axis] = rows[axis].begin;
    region.extent[axis] = rows[axis].size();
  }
  return region;
}

// Reach of a network along each axis; nothing where it doesn't tell, and needs the whole box.
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

// Estimates the memory per cell read that a prediction takes beside the network's own: the outputs
// of all operations and the fields. Runs the network on a small sample, in evaluation mode on the
// host.
double bytes_per_cell(Network& network, const AxisReach& reach) {
  const auto edge = reach.multiple;
  const std::array shape{nbody_channels, edge, edge, edge};
  double numbers = 0;
  for (const auto& layer : summarize(network, shape).layers) {
    numbers += std::accumulate(layer.output_shape.begin(), layer.output_shape.end(), 1.,
                               std::multiplies<>());
  }
  const auto cells = static_cast<double>(edge * edge * edge);
  constexpr auto fields = static_cast<double>(nbody_channels + 2 * hydro_channels);
  return sizeof(float) * (numbers / cells + fields);
}

struct TilePredictor {
  const BoxFile& box;
  Network& network;
  const Objective& objective;
  torch::Device device;

  // Predicts the core of a tile, [5, core]. Error: the network's output has a wrong shape.
  torch::Tensor predict(const Tile& tile, std::vector<float>& scratch) const {
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
      output = output.narrow(static_cast<std::int64_t>(axis) + 2,
                             core.begin - tile.read[axis].begin, core.size());
    }
    return output[0].to(torch::kCPU, torch::kFloat).contiguous();
  }
};

// `reach`: none where the network doesn't tell.
void require_multiples(const PredictionRequest& request, const std::string& model,
                       std::int64_t size, const std::optional<AxisReach>& reach) {
  if (!reach) {
    if (!request.tile || *request.tile >= size) return;
    throw InputError(
        fmt::format("predict: --tile {}, but {} doesn't tell how far its outputs see, so it takes "
                    "the box whole; leave --tile out",
                    *request.tile, model));
  }
  const auto multiple = reach->multiple;
  if (size % multiple != 0) {
    throw InputError(fmt::format(
        "predict: {} has {}^3 cells, but {} works on multiples of {} cells per edge: {} would fit",
        request.input.string(), size, model, multiple, nearest_multiples(size, multiple)));
  }
  if (request.tile && *request.tile % multiple != 0) {
    throw InputError(
        fmt::format("predict: --tile {}, but {} works on multiples of {} cells per edge; use {}",
                    *request.tile, model, multiple, nearest_multiples(*request.tile, multiple)));
  }
}

// Tells all ranks where rank 0's file has its fields. Collective.
HydroTarget broadcast_location(const Communicator& communicator,
                               const std::optional<HydroFile>& file) {
  const auto place = file ? file->place() : HydroTarget();
  const auto mine = file ? fs::absolute(place.file).string() : std::string();
  std::array numbers{static_cast<std::int64_t>(place.format), place.offset, place.size};
  communicator.broadcast(std::span(numbers), 0, {.name = "place in the file"});
  return {broadcast_bytes(communicator, mine, 0, {.name = "the file"}),
          static_cast<BoxFormat>(numbers[0]), numbers[1], numbers[2]};
}

// Predicts this rank's tiles and flushes them to disk.
void predict_tiles(const TilePredictor& predictor, const HydroTarget& place,
                   const std::vector<Tile>& tiles, const std::vector<std::size_t>& mine,
                   PredictionBar& bar) {
  const torch::NoGradGuard no_gradient;
  predictor.network.eval();
  HydroWriter writer(place);
  std::vector<float> scratch;
  for (const auto number : mine) {
    const auto& tile = tiles[number];
    const auto made = predictor.predict(tile, scratch);
    const auto core = region_of(tile.core);
    writer.write(core, {made.data_ptr<float>(), static_cast<std::size_t>(made.numel())});
    bar.add(core.cells());
  }
  writer.flush();
}

class BoxPrediction final : public Prediction {
 public:
  BoxPrediction(const PredictionRequest& request, const TrainedModel& trained, bool is_root)
      : request_(request),
        box_(request.input, BoxFields::nbody),
        reach_(reach_of(*trained.network)) {
    require_multiples(request, trained.config.model.name, box_.size(), reach_);
    constexpr std::array<std::string_view, 3> endings{".h5", ".hdf5", ".npy"};
    if (is_root) require_output(request, endings, box_.layout(BoxField::nbody).file);
  }

  [[nodiscard]] std::vector<RankFact> facts() const override {
    return {{"the box's cells per edge", fmt::to_string(box_.size())}};
  }

  void predict(TrainedModel& trained, const Communicator& communicator, const RunOptions& options,
               RunPrediction& result) override {
    TileRequest wanted{box_.size(), reach_, request_.tile};
    if (wanted.reach && !wanted.core)
      wanted.bytes_per_cell = bytes_per_cell(*trained.network, *wanted.reach);
    const auto device = load_trained_network(communicator, trained);
    const TilePredictor predictor{box_, *trained.network, *trained.objective, device};
    once_begun([&] { predict_box(predictor, wanted, communicator, options, result); });
  }

 private:
  // Collective.
  void predict_box(const TilePredictor& predictor, const TileRequest& wanted,
                   const Communicator& communicator, const RunOptions& options,
                   RunPrediction& result) const {
    const auto tiles = plan_tiles(communicator, predictor.device, wanted);
    const auto shares = deal_tiles(tiles, communicator.size());
    const auto& mine = shares[static_cast<std::size_t>(communicator.rank())];
    const Stopwatch watch;
    std::optional<HydroFile> file;
    if (communicator.rank() == 0) {
      const bool has_attributes = box_.format() == BoxFormat::hdf5;
      file.emplace(request_.output, box_.size(),
                   has_attributes ? box_.layout(BoxField::nbody).file : fs::path());
    }
    const auto place = broadcast_location(communicator, file);
    PredictionBar bar(communicator, options, std::ssize(mine), "cells");
    predict_tiles(predictor, place, tiles, mine, bar);
    communicator.barrier();
    bar.clear();
    if (file) file->commit();
    result.seconds = watch.seconds();
    const auto& largest = *std::ranges::max_element(tiles, {}, &Tile::cells);
    result.what = PredictedBox{box_.size(), std::ssize(tiles), region_of(largest.read).extent,
                               field_bytes(hydro_channels, box_.size())};
  }

  PredictionRequest request_;
  BoxFile box_;
  std::optional<AxisReach> reach_;
};

}  // namespace

std::unique_ptr<Prediction> prepare_box(const PredictionRequest& request,
                                        const TrainedModel& trained, bool is_root) {
  return std::make_unique<BoxPrediction>(request, trained, is_root);
}

}  // namespace kolo
