#include "kolo/run/predict_run.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/config/factories.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/device_memory.h"
#include "run/launch/terminal.h"
#include "run/prediction.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// Tells whether an existing file is an array in this folder, or below.
bool is_array_in(const fs::path& folder, const fs::path& file) {
  if (file.extension() != ".npy") return false;
  std::error_code error, other;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error))
    if (fs::equivalent(entry->path(), file, other)) return true;
  return false;
}

}  // namespace

void require_output(const PredictionRequest& request, std::span<const std::string_view> endings,
                    const fs::path& read) {
  const auto& file = request.output;
  const auto refuse = [&](std::string_view why) {
    throw InputError(fmt::format("predict: --output {}: {}", file.string(), why));
  };
  if (file.empty())
    throw InputError(fmt::format("predict: {} needs a file for what is predicted: -o FILE{}",
                                 request.input.string(), endings.front()));
  if (std::ranges::find(endings, file.extension().string()) == endings.end())
    refuse(fmt::format("expected a name that ends in {}", fmt::join(endings, ", ")));
  std::error_code error;
  const auto folder = fs::absolute(file).parent_path();
  if (!fs::is_directory(folder, error))
    refuse(fmt::format("there is no folder {}", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0)
    refuse(fmt::format("nothing can be written in {}", folder.string()));
  if (fs::equivalent(file, read, error) && !error) refuse("it is what is read");
  const auto status = fs::symlink_status(file, error);
  if (!fs::exists(status)) return;
  if (fs::is_directory(status)) refuse("it is a folder; name a file in it");
  if (is_array_in(read, file))
    refuse(fmt::format("it is an array in {}, which is read; choose another name", read.string()));
  if (!request.replaces) refuse("it is there already; --force replaces it");
}

PredictionBar::PredictionBar(const Communicator& communicator, const RunOptions& options,
                             std::int64_t steps, const std::string& unit)
    : ranks_(communicator.size()) {
  if (communicator.rank() != 0 || options.console != nullptr) return;
  make_bar(bar_);
  bar_->start("predicting", steps, 0, unit);
}

void PredictionBar::add(std::int64_t units) {
  units_ += static_cast<double>(units);
  if (bar_) bar_->update(++done_, {.samples_per_second = ranks_ * units_ / watch_.seconds()});
}

void PredictionBar::clear() {
  if (bar_) bar_->clear();
}

namespace {

// Chooses the kind by what the run was trained on; data sets of a program's own are arrays.
std::unique_ptr<Prediction> prepare(const PredictionRequest& request, const TrainedModel& trained,
                                    const RunComponents& components, bool is_root) {
  auto config = trained.config;
  if (components.datasets) {
    config.data.name = "arrays";
    config.data.own = {};
  }
  auto inputs = open_inputs(config, trained.datasets.training->layout(), request.input);
  if (inputs) return prepare_samples(request, trained, *std::move(inputs), is_root);
  return prepare_box(request, trained, is_root);
}

// Most bytes that this rank has used, on the GPU or the host.
std::int64_t peak_memory(const Network& network) {
  const auto parameters = network.parameters();
  const auto use = parameters.empty() ? std::nullopt : memory_use(parameters.front().device());
  return use ? use->peak_reserved_bytes : narrow<std::int64_t>(peak_resident_bytes());
}

// The job's preparation fills in `prepared`.
TrainedJob job_of(const PredictionRequest& request, const RunComponents& components,
                  std::unique_ptr<Prediction>& prepared) {
  return {.command = "predict",
          .path = request.run,
          .checkpoint = request.checkpoint,
          .overrides = request.overrides,
          .reads_data = false,
          .prepare = [&](const TrainedModel& trained, bool is_root) {
            prepared = prepare(request, trained, components, is_root);
            return prepared->facts();
          }};
}

}  // namespace

RunConfig check_prediction(const PredictionRequest& request, const RunComponents& components) {
  std::unique_ptr<Prediction> prepared;
  return check_trained(job_of(request, components, prepared), components);
}

int predict_run(const PredictionRequest& request,
                const std::function<void(const RunPrediction&)>& report,
                const RunComponents& components, const RunOptions& options) {
  std::unique_ptr<Prediction> prepared;
  auto job = job_of(request, components, prepared);
  job.work = [&](TrainedModel& trained, const Communicator& communicator) {
    RunPrediction result;
    prepared->predict(trained, communicator, options, result);
    result.peak_memory = static_cast<std::uint64_t>(
        all_reduce_value(communicator, peak_memory(*trained.network), ReduceOp::max));
    if (communicator.rank() != 0) return;
    result.model = trained.config.model.name;
    result.checkpoint = trained.checkpoint.string();
    result.input = request.input.string();
    result.output = request.output.string();
    result.step = trained.step;
    result.epoch = trained.epoch;
    result.ranks = communicator.size();
    report(result);
  };
  return run_trained(job, components, options);
}

}  // namespace kolo
