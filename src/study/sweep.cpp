#include "kolo/study/sweep.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/machine.h"
#include "kolo/base/text.h"
#include "kolo/nn/loss.h"
#include "kolo/parallel/initialize.h"
#include "kolo/run/launch_ranks.h"
#include "run/prepared_run.h"
#include "run/run_device.h"
#include "study/study_folder.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// "003-lr-0.01_batch_size-32": characters that shells and kolo's command lines interpret become -.
std::string folder_name(int number, const Trial& trial) {
  constexpr std::size_t longest = 80;
  std::string name;
  for (const auto& setting : trial.settings) {
    const auto [key, value] = key_and_value(setting);
    name += fmt::format("{}{}-{}", name.empty() ? "" : "_", key.substr(key.rfind('.') + 1), value);
  }
  for (char& letter : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                          std::string_view("._-+").find(letter) != std::string_view::npos;
    if (!is_plain) letter = '-';
  }
  return fmt::format("trials/{:03}-{}", number, name.substr(0, longest));
}

// Names new trials; earlier ones keep their numbers and folders.
void name_trials(Sweep& sweep) {
  int number = 0;
  for (auto& trial : sweep.trials) {
    trial.number = ++number;
    if (trial.folder.empty()) trial.folder = folder_name(number, trial);
  }
}

ConfigSource source_of(const SweepRequest& request, std::vector<std::string> settings) {
  ConfigSource source = request.config;
  source.overrides = std::move(settings);
  return source;
}

// Settings that decide whether a run can be prepared; the optimizer's are checked when read.
std::string preparation_of(const RunConfig& config) {
  std::string text;
  for (const auto& [key, value] : settings_of(config)) {
    const bool matters = !key.starts_with("optimizer.") && !key.starts_with("training.lr_") &&
                         key != "output_dir" && key != "seed";
    if (matters) text += fmt::format("{}={}\n", key, value);
  }
  return text;
}

// Epochs of trials, by their settings.
using TrialEpochs = std::map<std::vector<std::string>, std::int64_t>;

// Checks all trials before the first starts: InputError, which names the trial. Chooses the metric
// if the request leaves it open.
TrialEpochs check_trials(const SweepRequest& request, const SweepFolder& folder, Sweep& sweep) {
  TrialEpochs epochs;
  std::set<std::string> prepared;
  bool have_accuracy = true;
  const auto check = [&](const Trial& trial) {
    auto settings = sweep.settings;
    settings.insert(settings.end(), trial.settings.begin(), trial.settings.end());
    auto source = source_of(request, settings);
    source.output_dir = (folder.path / "trials").string();
    const auto config = load_run_config(source, request.components.models);
    epochs[trial.settings] = config.training.n_epochs;
    if (!prepared.insert(preparation_of(config)).second) return;
    const auto run = prepare_run(config, request.components, {}, sweep.ranks);
    if (run.datasets.validation->size() == 0)
      throw InputError("there is no validation data to compare trials by; see data.n_valid");
    const bool counts_correct = loss_entry(run.config.training.loss).has_classes;
    have_accuracy = have_accuracy && counts_correct;
    if (request.metric == "val_accuracy" && !counts_correct)
      throw InputError("--metric val_accuracy: this training has none; use val_loss");
  };
  for (const auto& trial : sweep.trials) {
    try {
      check(trial);
    } catch (const InputError& error) {
      throw InputError(
          fmt::format("sweep: trial {} ({}): {}", trial.number, describe(trial), error.what()));
    }
  }
  sweep.metric = !request.metric.empty() ? request.metric
                 : have_accuracy         ? "val_accuracy"
                                         : "val_loss";
  return epochs;
}

// GPUs of this machine, as CUDA_VISIBLE_DEVICES names them.
std::vector<std::string> visible_gpus(const RunConfig& config) {
  if (!wants_gpu(config.device)) return {};
  std::vector<std::string> names;
  if (const auto given = environment_variable("CUDA_VISIBLE_DEVICES")) {
    std::istringstream list(*given);
    for (std::string name; std::getline(list, name, ',');) names.push_back(name);
    return names;
  }
  for (int gpu = 0; gpu < cuda_devices().devices; ++gpu) names.push_back(std::to_string(gpu));
  return names;
}

Sweep plan_sweep(const SweepRequest& request, const SweepSpace& space) {
  Sweep sweep;
  const auto chosen = request.config.name ? " " + *request.config.name : std::string();
  sweep.name = request.config.file.stem().string() + chosen;
  sweep.configuration = request.config.file.string() + chosen;
  for (const auto& key : space.keys) sweep.space.push_back(key.text);
  sweep.settings = space.settings;
  sweep.random = request.random;
  sweep.ranks = request.sites.ranks;
  sweep.target = request.target.value_or(not_measured);
  for (auto& settings :
       request.random > 0 ? random_trials(space, sweep.seed, request.random) : grid_of(space)) {
    const int number = narrow<int>(sweep.trials.size()) + 1;
    sweep.trials.push_back({.number = number, .settings = std::move(settings)});
  }
  return sweep;
}

// Threads of every rank of every trial: each rank's share of the cores when all places are taken,
// or what it was when the sweep began, so that the same trials give the same results.
int threads_of(const RunConfig& base, const SweepSpace& space, const TrialSetting& setting,
               const SweepFolder& folder) {
  if (base.device.intra_threads > 0) return 0;
  for (const auto& key : space.keys)
    if (std::ranges::find(key.keys, "device.intra_threads") != key.keys.end()) return 0;
  if (fs::exists(folder.file())) return Sweep::read(folder.file()).threads;
  const int cores = setting.sites.front().cores;
  return cores > 0 ? std::max(1, cores / setting.request.sites.ranks) : 0;
}

// A request that has been checked, with its folder and its plan.
struct PreparedSweep {
  TrialSetting setting;
  SweepFolder folder;
  std::string configuration;
  Sweep sweep;
};

PreparedSweep prepare(SweepRequest request) {
  require_no_launcher("kolo sweep");
  const auto& metric = request.metric;
  if (!metric.empty() && metric != "val_accuracy" && metric != "val_loss")
    throw InputError(
        fmt::format("--metric: \"{}\" is not known; it can be val_accuracy, val_loss", metric));
  if (request.program.empty()) request.program = own_program();
  const auto space = parse_sweep_space(request.config.overrides);
  const auto base = load_run_config(source_of(request, space.settings), request.components.models);
  PreparedSweep prepared;
  auto& [setting, folder, configuration, sweep] = prepared;
  folder.path =
      request.output.empty() ? fs::path(fmt::format("{}-sweep", base.output_dir)) : request.output;
  configuration = to_yaml(base);
  sweep = plan_sweep(request, space);
  setting.request = request;
  setting.machine = examine_machine(detect_launch_environment(), base.communication.launcher);
  auto place_options = request.sites;
  place_options.gpus = visible_gpus(base);
  setting.sites = trial_sites(setting.machine, allowed_cores(), place_options);
  sweep.threads = threads_of(base, space, setting, folder);
  (void)rank_command({.ranks = sweep.ranks,
                      .oversubscribe = request.sites.oversubscribe,
                      .threads = std::max(sweep.threads, base.device.intra_threads)},
                     setting.machine);
  const auto epochs = check_trials(request, folder, sweep);
  if (sweep.metric == "val_accuracy" && sweep.target > 1)
    throw InputError(fmt::format(
        "--target: an accuracy is a number from 0 to 1, got {}; 94.9 % is 0.949, and a loss has "
        "--metric val_loss",
        sweep.target));
  sweep = folder.merged(sweep, configuration);
  name_trials(sweep);
  for (const auto& trial : sweep.trials) setting.epochs.push_back(epochs.at(trial.settings));
  return prepared;
}

}  // namespace

std::vector<std::string> train_words(const SweepRequest& request, const Sweep& sweep,
                                     const Trial& trial) {
  std::vector<std::string> words{request.config.file.string()};
  if (request.config.name) words.insert(words.end(), {"--config", *request.config.name});
  words.insert(words.end(), sweep.settings.begin(), sweep.settings.end());
  words.insert(words.end(), trial.settings.begin(), trial.settings.end());
  if (sweep.ranks > 1) words.insert(words.end(), {"-n", std::to_string(sweep.ranks)});
  return words;
}

std::string describe_sweep(SweepRequest request) {
  const auto [setting, folder, configuration, sweep] = prepare(std::move(request));
  std::string text;
  for (const auto& trial : sweep.trials) {
    if (!is_to_do(trial)) continue;
    auto words = trial_words(setting, folder, sweep, trial, setting.sites.front());
    words.insert(words.begin(), setting.request.program_name);
    text += fmt::format("trial {}: {}\n  {}\n", trial.number, describe(trial), as_typed(words));
  }
  return text.empty() ? "every trial is done\n" : text;
}

FinishedSweep run_sweep(SweepRequest request) {
  auto [setting, folder, configuration, planned] = prepare(std::move(request));
  const auto lock = folder.lock();
  FinishedSweep finished{folder.merged(planned, configuration), folder.path};
  auto& sweep = finished.sweep;
  if (!fs::exists(folder.config())) write_file_atomically(folder.config(), configuration);
  folder.collect(sweep);
  sweep.write(folder.file());
  const auto to_do = std::ranges::count_if(sweep.trials, is_to_do);
  setting.request.say(fmt::format("{}, {} to do, {} at once on {} each; results in {}",
                                  counted(std::ssize(sweep.trials), "trial"), to_do,
                                  setting.sites.size(), counted(sweep.ranks, "rank"),
                                  folder.path.string()));
  finished.was_stopped = run_trials(setting, folder, sweep);
  folder.write_page();
  return finished;
}

}  // namespace kolo
