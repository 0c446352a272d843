#include "kolo/run/predict_run.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "kolo/base/checked.h"
#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/train/objective.h"
#include "kolo/train/observe/progress.h"
#include "run/box_prediction.h"
#include "run/launch/terminal.h"
#include "run/rank_job.h"
#include "run/trained_run.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

struct PreparedPrediction {
  std::unique_ptr<BoxFile> box;
  std::optional<AxisReach> reach;  // none: the network doesn't tell
};

void require_fields_of_boxes(const RunConfig& config, const SampleLayout& layout) {
  if (layout.classes > 0) {
    throw InputError(fmt::format(
        "predict: {} tells classes apart, but boxes are predicted by models of fields, as "
        "unet3d; kolo eval says how well it does, class by class",
        config.model.name));
  }
  const auto channels = [](const std::vector<std::int64_t>& shape) {
    return shape.size() == 4 ? shape[0] : 0;
  };
  const auto from = channels(layout.input_shape), to = channels(layout.target_shape);
  if (from == nbody_channels && to == hydro_channels) return;
  throw InputError(
      fmt::format("predict: {} makes {} channels of {}, expected {} of {}, as boxes of dark matter "
                  "and gas have",
                  config.model.name, to, from, hydro_channels, nbody_channels));
}

std::string multiples_near(std::int64_t length, std::int64_t multiple) {
  const auto below = length / multiple * multiple;
  return below == 0 ? fmt::to_string(multiple) : fmt::format("{} or {}", below, below + multiple);
}

void require_multiples(const PredictionRequest& request, const std::string& model,
                       const PreparedPrediction& prepared) {
  const auto size = prepared.box->size();
  if (!prepared.reach) {
    if (!request.tile || *request.tile >= size) return;
    throw InputError(
        fmt::format("predict: --tile {}, but {} doesn't tell how far its outputs see, so it takes "
                    "the box whole; leave --tile out",
                    *request.tile, model));
  }
  const auto multiple = prepared.reach->multiple;
  if (size % multiple != 0) {
    throw InputError(fmt::format(
        "predict: {} has {}^3 cells, but {} works on multiples of {} cells per edge: {} would fit",
        request.input.string(), size, model, multiple, multiples_near(size, multiple)));
  }
  if (request.tile && *request.tile % multiple != 0) {
    throw InputError(
        fmt::format("predict: --tile {}, but {} works on multiples of {} cells per edge; use {}",
                    *request.tile, model, multiple, multiples_near(*request.tile, multiple)));
  }
}

void require_output(const PredictionRequest& request, const BoxFile& box) {
  const auto& file = request.output;
  const auto refuse = [&](std::string_view why) {
    throw InputError(fmt::format("predict: --output {}: {}", file.string(), why));
  };
  constexpr std::array endings{".h5", ".hdf5", ".npy"};
  if (std::ranges::find(endings, file.extension().string()) == endings.end())
    refuse("expected a name that ends in .h5 or .hdf5, or in .npy");
  std::error_code error;
  const auto folder = fs::absolute(file).parent_path();
  if (!fs::is_directory(folder, error))
    refuse(fmt::format("there is no folder {}", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0)
    refuse(fmt::format("nothing can be written in {}", folder.string()));
  if (fs::equivalent(file, box.layout(BoxField::nbody).file, error) && !error)
    refuse("it is what is read");
  const auto status = fs::symlink_status(file, error);
  if (!fs::exists(status)) return;
  if (fs::is_directory(status)) refuse("it is a folder; name a file in it");
  if (!request.replaces) refuse("it is there already; --force replaces it");
}

// Checks everything about the box that users can get wrong.
PreparedPrediction prepare(const PredictionRequest& request, const TrainedModel& trained,
                           bool is_root) {
  require_fields_of_boxes(trained.config, trained.datasets.training->layout());
  PreparedPrediction prepared{std::make_unique<BoxFile>(request.input, BoxFields::nbody),
                              reach_of(*trained.network)};
  require_multiples(request, trained.config.model.name, prepared);
  if (is_root) require_output(request, *prepared.box);
  return prepared;
}

// File whose attributes the gas gets; empty where the box has none.
fs::path attributes_of(const BoxFile& box) {
  return box.format() == BoxFormat::hdf5 ? box.layout(BoxField::nbody).file : fs::path();
}

// Tells all ranks where rank 0's file has its fields. Collective.
HydroPlace share_place(const Communicator& communicator, const std::optional<HydroFile>& file) {
  nlohmann::json told;
  if (file) {
    const auto& place = file->place();
    told = {{"file", fs::absolute(place.file).string()},
            {"is_npy", place.format == BoxFormat::npy},
            {"offset", place.offset},
            {"size", place.size}};
  }
  const auto text =
      broadcast_bytes(communicator, told.dump(-1, ' ', true), 0, {.name = "the file"});
  told = nlohmann::json::parse(text);
  return {told["file"].get<std::string>(),
          told["is_npy"].get<bool>() ? BoxFormat::npy : BoxFormat::hdf5,
          told["offset"].get<std::int64_t>(), told["size"].get<std::int64_t>()};
}

// Progress of rank 0's tiles, with the rate of all ranks, assumed to be as fast.
class TileBar {
 public:
  TileBar(const Communicator& communicator, const RunOptions& options, std::size_t tiles)
      : ranks_(communicator.size()) {
    if (communicator.rank() != 0 || options.console != nullptr) return;
    const auto shown = progress_options_from_environment();
    bar_.emplace(progress_stream(shown), shown);
    bar_->start("predicting", static_cast<std::int64_t>(tiles), 0, "cells");
  }

  void add(const Region& core) {
    cells_ += static_cast<double>(core.cells());
    if (bar_) bar_->update(++done_, {.samples_per_second = ranks_ * cells_ / watch_.seconds()});
  }
  void clear() {
    if (bar_) bar_->clear();
  }

 private:
  double ranks_, cells_ = 0;
  std::int64_t done_ = 0;
  Stopwatch watch_;
  std::optional<ProgressBar> bar_;
};

Region core_of(const Tile& tile) {
  Region region;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    region.start[axis] = tile.core[axis].begin;
    region.extent[axis] = tile.core[axis].size();
  }
  return region;
}

// Predicts this rank's tiles and flushes them to disk.
void predict_tiles(const TilePredictor& predictor, const HydroPlace& place,
                   const std::vector<Tile>& tiles, const std::vector<std::size_t>& mine,
                   TileBar& bar) {
  const torch::NoGradGuard no_gradient;
  predictor.network.eval();
  HydroWriter writer(place);
  std::vector<float> scratch;
  for (const auto number : mine) {
    const auto& tile = tiles[number];
    const auto made = predictor.predict(tile, scratch);
    const auto core = core_of(tile);
    writer.write(core, {made.data_ptr<float>(), static_cast<std::size_t>(made.numel())});
    bar.add(core);
  }
  writer.flush();
}

std::array<std::int64_t, 3> largest_of(const std::vector<Tile>& tiles) {
  const auto largest = std::ranges::max_element(tiles, {}, &Tile::cells);
  return {largest->read[0].size(), largest->read[1].size(), largest->read[2].size()};
}

// Result before anything is predicted.
RunPrediction prediction_of(const PredictionRequest& request, const TrainedModel& trained,
                            std::int64_t size, int ranks) {
  const std::array shape{hydro_channels, size, size, size,
                         static_cast<std::int64_t>(sizeof(float))};
  return {.model = trained.config.model.name,
          .checkpoint = trained.checkpoint.string(),
          .input = request.input.string(),
          .output = request.output.string(),
          .step = trained.step,
          .epoch = trained.epoch,
          .ranks = ranks,
          .size = size,
          .bytes = checked_product(std::span<const std::int64_t>(shape))};
}

// Most bytes that this rank has used, on the GPU or the host.
std::int64_t peak_memory(const torch::Device& device) {
  if (const auto use = memory_use(device)) return use->peak_reserved_bytes;
  return narrow<std::int64_t>(peak_resident_bytes());
}

// Collective.
void predict_box(const TilePredictor& predictor, const TileRequest& wanted,
                 const Communicator& communicator, const RunOptions& options,
                 RunPrediction& result) {
  const auto tiles = plan_tiles(communicator, predictor.device, wanted);
  result.tiles = narrow<std::int64_t>(tiles.size());
  result.largest_tile = largest_of(tiles);
  const auto shares = share_tiles(tiles, communicator.size());
  const auto& mine = shares[static_cast<std::size_t>(communicator.rank())];
  const Stopwatch watch;
  std::optional<HydroFile> file;
  if (communicator.rank() == 0)
    file.emplace(result.output, result.size, attributes_of(predictor.box));
  const auto place = share_place(communicator, file);
  TileBar bar(communicator, options, mine.size());
  predict_tiles(predictor, place, tiles, mine, bar);
  communicator.barrier();
  bar.clear();
  if (file) file->commit();
  result.seconds = watch.seconds();
  result.peak_memory = static_cast<std::uint64_t>(
      all_reduce_value(communicator, peak_memory(predictor.device), ReduceOp::max));
}

// Collective.
RunPrediction predict_on_rank(const PredictionRequest& request, const PreparedPrediction& prepared,
                              TrainedModel& trained, const Communicator& communicator,
                              const RunOptions& options) {
  const auto size = prepared.box->size();
  TileRequest wanted{size, prepared.reach, request.tile};
  if (wanted.reach && !wanted.core)
    wanted.bytes_per_cell = bytes_per_cell(*trained.network, nbody_channels, *wanted.reach);
  const auto device = load_trained_network(communicator, trained);
  auto result = prediction_of(request, trained, size, communicator.size());
  const TilePredictor predictor{*prepared.box, *trained.network, *trained.objective, device};
  once_begun([&] { predict_box(predictor, wanted, communicator, options, result); });
  return result;
}

// The job's preparation fills in `prepared`.
TrainedJob job_of(const PredictionRequest& request, PreparedPrediction& prepared) {
  return {.command = "predict",
          .path = request.run,
          .checkpoint = request.checkpoint,
          .overrides = request.overrides,
          .reads_data = false,
          .prepare = [&](const TrainedModel& trained, bool is_root) -> std::vector<RankFact> {
            prepared = prepare(request, trained, is_root);
            return {{"the box's cells per edge", fmt::to_string(prepared.box->size())}};
          }};
}

}  // namespace

RunConfig check_prediction(const PredictionRequest& request, const RunParts& parts) {
  PreparedPrediction prepared;
  return check_trained(job_of(request, prepared), parts);
}

int predict_run(const PredictionRequest& request,
                const std::function<void(const RunPrediction&)>& report, const RunParts& parts,
                const RunOptions& options) {
  PreparedPrediction prepared;
  auto job = job_of(request, prepared);
  job.work = [&](TrainedModel& trained, const Communicator& communicator) {
    const auto result = predict_on_rank(request, prepared, trained, communicator, options);
    if (communicator.rank() == 0) report(result);
  };
  return run_trained(job, parts, options);
}

}  // namespace kolo
