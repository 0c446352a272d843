#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/data/loader.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/train/objective.h"
#include "run/prediction.h"

namespace kolo {

namespace {

constexpr std::int64_t most_shown = 40, most_shown_numbers = 8;  // without a file
constexpr std::int64_t most_columns = 16384;                     // as programs for tables have it

// This rank's batches of a data set: batch k of rank r of R is number k R + r, so that batches are
// the same for any number of ranks.
class BatchesOfRank final : public Dataset {
 public:
  BatchesOfRank(std::shared_ptr<const Dataset> whole, std::int64_t batch, int rank, int ranks)
      : whole_(std::move(whole)), batch_(batch), rank_(rank), ranks_(ranks) {
    const auto rest = whole_->size() % (batch * ranks) - rank * batch;
    size_ = whole_->size() / (batch * ranks) * batch + std::clamp<std::int64_t>(rest, 0, batch);
  }

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleLayout& layout() const override { return whole_->layout(); }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override {
    const auto batch = index / batch_ * ranks_ + rank_;
    whole_->read(batch * batch_ + index % batch_, epoch, place);
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  std::int64_t batch_, rank_, ranks_, size_ = 0;
};

std::string shapes_of(const SampleLayout& layout) {
  if (layout.input_shapes.empty()) return fmt::format("[{}]", fmt::join(layout.input_shape, ", "));
  return fmt::format("{}", fmt::join(layout.input_shapes, ", "));
}

// Names of the classes, or numbers.
std::vector<std::string> names_of_classes(std::vector<std::string> names, std::int64_t classes) {
  for (auto label = std::ssize(names); label < classes; ++label)
    names.push_back(std::to_string(label));
  names.resize(static_cast<std::size_t>(classes));
  return names;
}

PredictionForm form_of(const TrainedModel& trained, const PredictionInputs& inputs) {
  const auto& layout = trained.datasets.training->layout();
  PredictionForm form{.samples = inputs.samples->size(), .file = inputs.file};
  form.has_classes = layout.classes > 0;
  if (form.has_classes) {
    form.values =
        std::max<std::int64_t>(2, trained.config.model.n_classes.value_or(layout.classes));
    form.columns = names_of_classes(trained.datasets.class_names, form.values);
    form.arrays = {{"probabilities", {form.values}}};
    return form;
  }
  form.values = layout.target_size();
  auto shapes = layout.target_shapes;
  if (shapes.empty()) shapes = {layout.target_shape};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    auto name = shapes.size() == 1 ? "targets" : fmt::format("targets_{}", i);
    if (i < inputs.target_names.size()) name = inputs.target_names[i];
    form.arrays.push_back({name, shapes[i]});
    const auto count = checked_product<std::int64_t>(shapes[i]);
    if (form.values > most_columns) continue;
    for (std::int64_t value = 0; value < count; ++value)
      form.columns.push_back(count == 1 ? name : fmt::format("{}[{}]", name, value));
  }
  return form;
}

class SamplePrediction final : public Prediction {
 public:
  SamplePrediction(const PredictionRequest& request, const TrainedModel& trained,
                   PredictionInputs inputs, bool is_root)
      : request_(request), inputs_(std::move(inputs)), form_(form_of(trained, inputs_)) {
    require_inputs(trained);
    if (is_root) read_first();
    if (!request.output.empty()) {
      if (is_root) require_output(request, endings(), request.input);
    } else if (!form_.has_classes && form_.values > most_shown_numbers) {
      throw InputError(fmt::format(
          "predict: {} makes {} numbers of each sample, too many to show; name a file for them: "
          "-o FILE{}",
          trained.config.model.name, form_.values, endings().front()));
    } else if (form_.samples > most_shown) {
      std::vector<std::int64_t> shown(most_shown);
      std::iota(shown.begin(), shown.end(), 0);
      inputs_.samples = std::make_shared<Subset>(inputs_.samples, std::move(shown));
    }
  }

  [[nodiscard]] std::vector<RankFact> facts() const override {
    return {{"the number of samples to predict", fmt::to_string(form_.samples)}};
  }

  void predict(TrainedModel& trained, const Communicator& communicator, const RunOptions& options,
               RunPrediction& result) override {
    const auto device = load_trained_network(communicator, trained);
    PredictedSamples samples{.has_classes = form_.has_classes,
                             .has_files = form_.file != nullptr,
                             .columns = form_.columns,
                             .samples = form_.samples,
                             .warnings = inputs_.warnings};
    const Stopwatch watch;
    once_begun([&] { predict_all(trained, communicator, device, options, samples); });
    result.seconds = watch.seconds();
    result.what = std::move(samples);
  }

 private:
  void require_inputs(const TrainedModel& trained) const {
    if (request_.tile) {
      throw InputError(fmt::format(
          "predict: --tile {} is for simulation boxes, but {} was trained on data {}; leave it out",
          *request_.tile, request_.run.string(), trained.config.data.name));
    }
    const auto &found = inputs_.samples->layout(), &taken = trained.datasets.training->layout();
    if (found.input_shape == taken.input_shape && found.input_shapes == taken.input_shapes) return;
    throw InputError(fmt::format("predict: the samples of {} are {}, but {} takes {}",
                                 request_.input.string(), shapes_of(found),
                                 trained.config.model.name, shapes_of(taken)));
  }

  // Finds files of another content before anything is begun.
  void read_first() const {
    std::vector<float> input(static_cast<std::size_t>(inputs_.samples->layout().input_size()));
    std::int64_t label = 0;
    inputs_.samples->read(0, 0, {input, {&label, 1}, {}});
  }

  [[nodiscard]] std::vector<std::string_view> endings() const {
    std::vector<std::string_view> all;
    if (!form_.columns.empty()) all.emplace_back(".csv");
    if (form_.arrays.size() == 1) all.emplace_back(".npy");
    for (const auto* const ending : {".h5", ".hdf5", ".json"}) all.emplace_back(ending);
    return all;
  }

  // Samples in a batch: the same for any number of ranks.
  [[nodiscard]] std::int64_t batch_size(const RunConfig& config) const {
    constexpr std::int64_t most_samples = 256, most_numbers = std::int64_t{1} << 20;
    const auto numbers =
        std::max({std::int64_t{1}, inputs_.samples->layout().input_size(), form_.values});
    const auto fitting = std::clamp<std::int64_t>(most_numbers / numbers, 1, most_samples);
    return std::min(config.training.validation_batch_size.value_or(fitting), form_.samples);
  }

  // Rows of values, [N, values], in the host's memory.
  [[nodiscard]] torch::Tensor rows_of(const TrainedModel& trained, const torch::Device& device,
                                      const torch::Tensor& input) const {
    auto rows = in_phase("prediction", device, [&] {
      return forward_for(*trained.objective, *trained.network, input).to(torch::kFloat);
    });
    rows = rows.reshape({input.size(0), -1});
    if (form_.has_classes) rows = class_probabilities(rows);
    if (rows.size(1) == form_.values) return rows.to(torch::kCPU).contiguous();
    throw Error(fmt::format("predict: the network makes {} values of a sample, expected {}",
                            rows.size(1), form_.values));
  }

  // Loader of this rank's batches; null where it has none.
  [[nodiscard]] std::unique_ptr<Loader> make_loader(const DataConfig& data, std::int64_t batch,
                                                    const Communicator& communicator,
                                                    const torch::Device& device) const {
    const auto mine = std::make_shared<BatchesOfRank>(inputs_.samples, batch, communicator.rank(),
                                                      communicator.size());
    if (mine->size() == 0) return nullptr;
    auto loader =
        std::make_unique<Loader>(mine, DistributedSampler(mine->size(), 0, 1, {.shuffle = false}),
                                 LoaderOptions{batch, data.workers, data.prefetch});
    loader->deliver_to(device);
    loader->start_epoch(0);
    return loader;
  }

  // Each round predicts a batch of each rank, and rank 0 writes them. Collective.
  void predict_all(const TrainedModel& trained, const Communicator& communicator,
                   const torch::Device& device, const RunOptions& options,
                   PredictedSamples& result) const {
    const torch::NoGradGuard no_gradient;
    trained.network->eval();
    const auto ranks = communicator.size();
    const auto batch = batch_size(trained.config);
    const auto round = checked_multiply<std::int64_t>(batch, ranks);
    const auto rounds = divide_up(inputs_.samples->size(), round);
    const auto loader = make_loader(trained.config.data, batch, communicator, device);
    std::unique_ptr<PredictionWriter> writer;
    if (communicator.rank() == 0 && !request_.output.empty())
      writer = make_prediction_writer(request_.output, form_);
    PredictionBar bar(communicator, options, rounds, form_.file ? "images" : "samples");
    for (std::int64_t i = 0; i < rounds; ++i) {
      const auto loaded = loader ? loader->next() : std::nullopt;
      const auto rows = all_gather(communicator, loaded ? rows_of(trained, device, loaded->input)
                                                        : torch::empty({0, form_.values}));
      if (communicator.rank() != 0) continue;
      const std::span values(rows.data_ptr<float>(), static_cast<std::size_t>(rows.numel()));
      if (writer)
        writer->add(values);
      else
        keep(values, result);
      bar.add(rows.size(0) / ranks);
    }
    bar.clear();
    if (writer) writer->commit();
  }

  // Keeps rows to show.
  void keep(std::span<const float> values, PredictedSamples& result) const {
    const auto row = static_cast<std::size_t>(form_.values);
    for (; !values.empty(); values = values.subspan(row)) {
      const auto index = std::ssize(result.first);
      const auto first = values.first(row);
      result.first.push_back(
          {form_.file ? form_.file(index) : std::to_string(index), {first.begin(), first.end()}});
    }
  }

  PredictionRequest request_;
  PredictionInputs inputs_;
  PredictionForm form_;
};

}  // namespace

std::unique_ptr<Prediction> prepare_samples(const PredictionRequest& request,
                                            const TrainedModel& trained, PredictionInputs inputs,
                                            bool is_root) {
  return std::make_unique<SamplePrediction>(request, trained, std::move(inputs), is_root);
}

}  // namespace kolo
