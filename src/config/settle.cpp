#include "config/settle.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/config/factories.h"
#include "kolo/nn/loss.h"
#include "settings/value.h"

namespace kolo {

namespace {

constexpr std::array<std::string_view, 3> batch_keys{"batch_size", "local_batch_size",
                                                     "global_batch_size"};

constexpr std::int64_t default_batch_size = 64;  // per rank

struct Given {
  std::string_view key;
  ConfigValue* value;
};

void require_one(const std::vector<Given>& given) {
  if (given.size() < 2) return;
  throw InputError(
      fmt::format("{}: training.{} and training.{} both say how large a batch is: give the samples "
                  "per rank (batch_size or local_batch_size) or those of all ranks "
                  "(global_batch_size)",
                  given[1].value->place, given[0].key, given[1].key));
}

// What is merged or included gives way to what was written over it.
std::vector<Given> nearest_of(const std::vector<Given>& given) {
  const auto distance = [](const Given& each) { return each.value->distance; };
  std::vector<Given> nearest;
  for (const auto& each : given) {
    if (!nearest.empty() && distance(each) > distance(nearest.front())) continue;
    if (!nearest.empty() && distance(each) < distance(nearest.front())) nearest.clear();
    nearest.push_back(each);
  }
  return nearest;
}

// Numbers of ranks that share a batch evenly, those next to `ranks`.
std::string fitting_ranks(std::int64_t batch, std::int64_t ranks) {
  constexpr std::size_t most_named = 4;  // on either side
  std::vector<std::int64_t> below, above;
  for (auto count = std::min(ranks, batch); count >= 1 && below.size() < most_named; --count)
    if (batch % count == 0) below.push_back(count);
  // Beyond this nobody has as many ranks.
  const auto end = std::min<std::int64_t>(batch, 1 << 20);
  for (auto count = ranks + 1; count <= end && above.size() < most_named; ++count)
    if (batch % count == 0) above.push_back(count);
  std::vector<std::string> names;
  for (auto each = below.rbegin(); each != below.rend(); ++each)
    names.push_back(std::to_string(*each));
  for (const auto each : above) names.push_back(std::to_string(each));
  return join(names);
}

}  // namespace

void settle_batch_sizes(ConfigValue& root) {
  ConfigValue* const training = root.find("training");
  if (training == nullptr) return;
  std::vector<Given> in_file, on_command_line;
  for (const auto key : batch_keys) {
    ConfigValue* const value = training->find(key);
    if (value == nullptr || value->kind == ConfigValue::Kind::nothing) continue;
    (is_from_command_line(*value) ? on_command_line : in_file).push_back({key, value});
  }
  require_one(on_command_line);
  if (on_command_line.empty()) {
    const auto nearest = nearest_of(in_file);
    require_one(nearest);
    if (nearest.empty()) return;
    std::erase_if(in_file, [&](const auto& each) {
      return each.value->distance == nearest.front().value->distance;
    });
  }
  for (const auto& each : in_file) each.value->kind = ConfigValue::Kind::nothing;
}

std::int64_t batch_size_of(const TrainingConfig& training, int ranks, std::string_view name) {
  if (!training.global_batch_size) return training.batch_size.value();
  const auto whole = *training.global_batch_size;
  if (whole % ranks == 0) return whole / ranks;
  const auto below = whole / ranks * ranks;
  throw InputError(fmt::format(
      "training.global_batch_size: {} samples can't be shared evenly by {} {}s; {} {}s can "
      "share them, or {} {}s a batch of {}{}",
      whole, ranks, name, fitting_ranks(whole, ranks), name, ranks, name,
      below > 0 ? fmt::format("{} or ", below) : "", below + ranks));
}

double batch_ratio_of(const TrainingConfig& training, int ranks) {
  if (!training.base_batch_size) return ranks;
  const auto whole = checked_multiply<std::int64_t>(batch_size_of(training, ranks), ranks);
  return static_cast<double>(whole) / static_cast<double>(*training.base_batch_size);
}

namespace {

class Checks {
 public:
  Checks(const RunConfig& config, const ConfigValue& root, const ModelCatalogue& models)
      : config_(config), root_(root), models_(models) {}

  void run() const {
    check_data();
    check_model();
    check_optimizer();
    check_learning_rate();
    check_loss();
    check_checkpoint();
    check_graphs();
    check_pipeline();
    check_virtual_ranks();
    check_accumulation();
    check_noise();
    check_views();
    check_compression();
    check_sharding();
    check_freezing();
    check_reference();
  }

 private:
  [[noreturn]] void fail(std::string_view key, std::string_view reason) const {
    throw InputError(fmt::format("{}: {}: {}", place_of(root_, key), key, reason));
  }

  void check_data() const {
    const auto& data = config_.data;
    const auto& entry = dataset_entry(data.name);
    entry.check(data.own, of_section("data"));
    if (!data.n_train && !entry.needs_n_train.empty()) fail("data.n_train", entry.needs_n_train);
    if (!data.n_valid && !entry.needs_n_valid.empty()) fail("data.n_valid", entry.needs_n_valid);
  }

  void check_model() const {
    const auto& model = config_.model;
    check_shape("model.input_shape", model.input_shape);
    const auto& entry = models_.find(model.name);
    entry.check(model.own, of_section("model"));
    if (model.sync_batch_norm && entry.keeps_batch_norms) {
      fail(
          "model.sync_batch_norm",
          fmt::format("the batch norms of the model {} can't be replaced; leave it false, or use a "
                      "model of one's own in C++ with kolo::SyncBatchNorm",
                      model.name));
    }
  }

  void check_shape(std::string_view key, const std::vector<int64_t>& shape) const {
    try {
      (void)checked_product(std::span<const int64_t>(shape));
    } catch (const Error&) {
      fail(key, "the product of the sizes does not fit 64 bits");
    }
  }

  void check_optimizer() const {
    const auto& optimizer = config_.optimizer;
    kolo::check_optimizer(optimizer, of_section("optimizer"));
    if (optimizer_entry(optimizer.name).has_own_decay &&
        config_.model.l2_mode == L2Mode::decoupled) {
      fail("model.l2_mode",
           fmt::format("{} has its own kind of weight decay; set optimizer.weight_decay, and "
                       "model.l2 to 0",
                       optimizer.name));
    }
  }

  // For an entry of a catalogue, which knows its keys but not their section.
  [[nodiscard]] RefuseKey of_section(std::string_view section) const {
    return [this, section](std::string_view key, std::string_view reason) {
      fail(fmt::format("{}.{}", section, key), reason);
    };
  }

  void check_learning_rate() const {
    const auto& training = config_.training;
    const bool has_warmup = training.lr_warmup_epochs > 0 || training.lr_warmup_steps > 0;
    if (training.lr_warmup_epochs > 0 && training.lr_warmup_steps > 0) {
      fail("training.lr_warmup_steps",
           "give the warm-up in epochs (lr_warmup_epochs) or in steps, not both");
    }
    const auto& decay = schedule_entry(training.lr_decay);
    decay.check(training.lr_decay_own, of_section("training"));
    if (!training.lr_schedule.empty() && !decay.takes_intervals) {
      fail("training.lr_decay",
           "give the rates by epochs (lr_schedule) or a decay (lr_decay), not both");
    }
    if (has_warmup && decay.is_own_warmup) {
      fail("training.lr_decay", fmt::format("{} rises and falls by itself; leave lr_warmup_epochs "
                                            "and lr_warmup_steps out",
                                            decay.name));
    }
    check_intervals();
  }

  void check_intervals() const {
    double free_from = 0;
    for (const auto& interval : config_.training.lr_schedule) {
      if (interval.start_epoch < free_from) {
        fail("training.lr_schedule",
             fmt::format("the part from epoch {} begins before the one above it ends or begins; "
                         "the parts must be in order and apart",
                         interval.start_epoch));
      }
      if (interval.end_epoch && *interval.end_epoch <= interval.start_epoch) {
        fail("training.lr_schedule",
             fmt::format("the part from epoch {} ends at epoch {}; it must end later than it "
                         "begins",
                         interval.start_epoch, *interval.end_epoch));
      }
      free_from = interval.end_epoch.value_or(interval.start_epoch);
    }
  }

  void check_loss() const {
    const auto& training = config_.training;
    const auto& entry = loss_entry(training.loss);
    entry.check(training.loss_own, of_section("training"));
    const auto& classes = config_.model.n_classes;
    if (entry.is_binary && classes && *classes != 1) {
      fail("training.loss", fmt::format("{} needs a network of one output (model.n_classes: 1), "
                                        "but model.n_classes is {}",
                                        entry.name, *classes));
    }
    if (!entry.is_binary && classes && *classes == 1) {
      fail("training.loss", fmt::format("a network of one output (model.n_classes: 1) learns by "
                                        "binary_crossentropy, not {}",
                                        entry.name));
    }
    check_metrics(entry);
  }

  void check_metrics(const LossEntry& loss) const {
    const auto& metrics = config_.training.metrics;
    if (loss.is_binary &&
        std::ranges::find(metrics, Metric::top_k_categorical_accuracy) != metrics.end()) {
      fail("training.metrics", "top_k_categorical_accuracy needs a network of several outputs");
    }
    if (loss.has_classes || metrics.empty()) return;
    if (root_.find("training")->find("metrics") != nullptr) {
      fail("training.metrics", fmt::format("with the loss {} nothing is right or wrong; leave the "
                                           "metrics out",
                                           loss.name));
    }
  }

  void check_graphs() const {
    if (config_.device.graphs && config_.training.mixup_alpha > 0) {
      fail("device.graphs",
           "with training.mixup_alpha the numbers of each step are others, so that none can be "
           "recorded; leave out one of the two");
    }
  }

  void check_pipeline() const {
    const auto& parallel = config_.parallel;
    const auto chunks = parallel.chunks.value_or(1);
    if (chunks > 1 && parallel.schedule != PipelineSchedule::interleaved) {
      fail("parallel.chunks", fmt::format("{} parts per rank, but with the schedule {} there is "
                                          "one; use parallel.schedule=interleaved, or leave it out",
                                          chunks, name_of(parallel.schedule)));
    }
    if (parallel.chunks == 1 && parallel.schedule == PipelineSchedule::interleaved) {
      fail("parallel.chunks",
           "1, but the schedule interleaved has 2 parts of the network per rank or more; use "
           "parallel.schedule=1f1b, or leave it out");
    }
    if (parallel.microbatches && parallel.pipeline == 1) {
      fail("parallel.microbatches",
           fmt::format("{}, but without a pipeline batches aren't cut; set parallel.pipeline, or "
                       "leave it out (parallel.microbatches=null)",
                       *parallel.microbatches));
    }
    if (config_.device.graphs && (parallel.pipeline > 1 || parallel.recompute)) {
      fail("device.graphs",
           fmt::format("with parallel.{} the passes of a step can't be recorded as one; leave out "
                       "one of the two",
                       parallel.pipeline > 1 ? "pipeline" : "recompute"));
    }
  }

  void check_virtual_ranks() const {
    if (config_.training.virtual_ranks == 0) return;
    const auto& parallel = config_.parallel;
    const bool shares_samples =
        std::ranges::any_of(parallel.spatial, [](auto ranks) { return ranks > 1; });
    const auto refuse = [&](std::string_view with, std::string_view why) {
      fail("training.virtual_ranks",
           fmt::format("{} can't be had with {}: {}; leave out one of the two",
                       config_.training.virtual_ranks, with, why));
    };
    if (shares_samples) refuse("parallel.spatial", "each part of a step is one rank's");
    if (parallel.pipeline > 1) refuse("parallel.pipeline", "each part of a step is one rank's");
    if (config_.model.sync_batch_norm) {
      refuse("model.sync_batch_norm",
             "a rank computes its parts one after another, and each would wait for the others");
    }
    if (config_.device.graphs)
      refuse("device.graphs", "a step has as many passes as the rank has parts");
  }

  void check_accumulation() const {
    const auto count = config_.training.accumulation;
    if (count == 1) return;
    refuse_together("training.accumulation", std::to_string(count),
                    {{config_.parallel.pipeline > 1, "parallel.pipeline",
                      "a pipeline's batches are cut in parts by parallel.microbatches already"},
                     {config_.training.virtual_ranks > 0, "training.virtual_ranks",
                      "a rank makes its steps in the parts of its virtual ranks already"},
                     {config_.device.graphs, "device.graphs", "a step has several passes"}});
    const auto& training = config_.training;
    const auto batch = training.batch_size ? training.batch_size : training.local_batch_size;
    if (!training.global_batch_size && count > batch.value_or(default_batch_size)) {
      fail("training.accumulation",
           fmt::format("a rank's batch of {} samples can't be cut in {} parts; batch_size counts "
                       "the samples of a whole step",
                       batch.value_or(default_batch_size), count));
    }
  }

  void check_noise() const {
    const auto& training = config_.training;
    const bool is_adascale = config_.optimizer.lr_scaling == Scaling::adascale;
    if (is_adascale && config_.optimizer.name != "sgd") {
      fail(
          "optimizer.lr_scaling",
          fmt::format("adascale is derived for sgd, and the optimizer is {}; use sgd, or linear or "
                      "sqrt",
                      config_.optimizer.name));
    }
    if (training.noise_scale_every == 0 && !is_adascale) return;
    const bool is_set = training.noise_scale_every > 0;
    refuse_together(is_set ? "training.noise_scale_every" : "optimizer.lr_scaling",
                    is_set ? std::to_string(training.noise_scale_every) : "adascale",
                    {{training.virtual_ranks > 0, "training.virtual_ranks",
                      "their gradients are added up in an order of their own"},
                     {config_.optimizer.sharded, "optimizer.sharded",
                      "no rank has the whole averaged gradient"},
                     {config_.parallel.pipeline > 1, "parallel.pipeline",
                      "each rank has a part of the gradient"},
                     {config_.device.graphs, "device.graphs", "a recorded step can't be asked"},
                     {training.precision == Precision::fp16, "training.precision=fp16",
                      "gradients have a loss scale that changes"}});
  }

  void check_views() const {
    const auto views = config_.training.validation_views;
    if (views == ValidationViews::one) return;
    const bool shares_samples =
        std::ranges::any_of(config_.parallel.spatial, [](auto ranks) { return ranks > 1; });
    refuse_together(
        "training.validation_views", name_of(views),
        {{config_.parallel.pipeline > 1, "parallel.pipeline", "a pipeline takes each sample once"},
         {shares_samples, "parallel.spatial", "a rank has a part of each sample"}});
  }

  // What can't be had together with a key that is set.
  struct Other {
    bool is_set;
    std::string_view key, why;
  };
  void refuse_together(std::string_view key, std::string_view value,
                       std::initializer_list<Other> others) const {
    for (const auto& other : others) {
      if (!other.is_set) continue;
      fail(key, fmt::format("{} can't be had with {}: {}; leave out one of the two", value,
                            other.key, other.why));
    }
  }

  void check_compression() const {
    const auto& communication = config_.communication;
    const bool is_powersgd = communication.compression == Compression::powersgd;
    const std::pair<std::string_view, bool> of_powersgd[] = {
        {"communication.powersgd_rank", communication.powersgd_rank.has_value()},
        {"communication.powersgd_start_step", communication.powersgd_start_step.has_value()}};
    for (const auto& [key, is_set] : of_powersgd) {
      if (is_set && !is_powersgd) {
        fail(key, fmt::format("only PowerSGD has it, and the compression is {}; set "
                              "communication.compression=powersgd, or leave it out",
                              name_of(communication.compression)));
      }
    }
    if (communication.compression == Compression::none) return;
    refuse_together(
        "communication.compression", name_of(communication.compression),
        {{config_.training.virtual_ranks > 0, "training.virtual_ranks",
          "their gradients are added up in an order of their own, unrounded"},
         {config_.device.graphs, "device.graphs",
          "compressed gradients go through the host's hands"},
         {is_powersgd && config_.training.precision == Precision::fp16, "training.precision=fp16",
          "what PowerSGD carries over to the next step has the loss scale of the last"}});
  }

  void check_sharding() const {
    const auto& name = config_.optimizer.name;
    if (optimizer_entry(name).looks_at_place && config_.parallel.pipeline > 1) {
      fail("optimizer.name",
           fmt::format("{} treats a network's first and last layer in another way, and a stage of "
                       "a pipeline (parallel.pipeline) does not know which they are; use another "
                       "optimizer, or no pipeline",
                       name));
    }
    if (!config_.optimizer.sharded) return;
    if (optimizer_entry(name).takes_whole_parameters) {
      fail("optimizer.sharded",
           fmt::format("{} needs whole parameters, of which a rank would have a part; "
                       "leave it false, or use another optimizer",
                       name));
    }
    refuse_together(
        "optimizer.sharded", "true",
        {{config_.training.virtual_ranks > 0, "training.virtual_ranks",
          "gradients are added up by one of the two"},
         {config_.communication.compression != Compression::none, "communication.compression",
          "each rank is sent its part of the gradients alone, as it is"},
         {config_.parallel.pipeline > 1, "parallel.pipeline",
          "a pipeline's ranks have parts of the state already"},
         {config_.device.graphs, "device.graphs",
          "ranks gather each other's parameters in a step"}});
  }

  void check_freezing() const {
    if (config_.model.freeze.empty()) return;
    refuse_together("model.freeze", fmt::format("[{}]", fmt::join(config_.model.freeze, ", ")),
                    {{config_.parallel.pipeline > 1, "parallel.pipeline",
                      "a rank may be left with nothing to train"}});
    if (models_.find(config_.model.name).keeps_batch_norms) {
      fail("model.freeze",
           "modules of a TorchScript model can't be held in evaluation mode; leave it out, or set "
           "requires_grad of their parameters to False in Python before torch.jit.script");
    }
  }

  // Of a section that says nothing of what was published, the rest has no meaning.
  void check_reference() const {
    const auto& reference = config_.reference;
    const bool is_loss = reference.metric == ReferenceMetric::val_loss;
    if (!reference.published) {
      const std::pair<std::string_view, bool> others[] = {
          {"metric", is_loss},
          {"source", !reference.source.empty()},
          {"seeds", reference.seeds != ReferenceConfig{}.seeds},
          {"hours", reference.hours.has_value()},
          {"machine", !reference.machine.empty()}};
      for (const auto& [key, is_given] : others) {
        if (is_given) {
          fail(fmt::format("reference.{}", key),
               "without reference.published there is nothing that it tells of; give what was "
               "published, an accuracy from 0 to 1 or a loss, or leave this out");
        }
      }
    } else if (!is_loss && *reference.published > 1) {
      fail("reference.published",
           fmt::format("an accuracy is a number from 0 to 1, got {}; 94.9 % is 0.949, and a loss "
                       "has the metric val_loss",
                       *reference.published));
    }
  }

  void check_checkpoint() const {
    const CheckpointConfig& checkpoint = config_.checkpoint;
    if (checkpoint.enabled && checkpoint.every_epochs == 0 && checkpoint.every_steps == 0) {
      fail("checkpoint.every_epochs",
           "every_epochs and every_steps are both 0, so no checkpoint would be written; "
           "set one, or enabled: false");
    }
  }

  const RunConfig& config_;
  const ConfigValue& root_;
  const ModelCatalogue& models_;
};

void fill_own(OwnSettings& own, const ChoiceEntry& entry) {
  if (!own.has_value()) own = entry.defaults;
  entry.complete(own);
}

void fill_model(ModelConfig& model, const ModelEntry& entry, double weight_decay) {
  fill_own(model.own, entry);
  if (!model.l2) model.l2 = weight_decay > 0 ? 0 : entry.l2;
  put_channels_first(model.input_shape);
}

// The same bits on any number of ranks take the same kernels: their threads and what is chosen by
// measuring count.
void fill_device(DeviceConfig& device, const TrainingConfig& training) {
  if (training.virtual_ranks == 0) return;
  device.deterministic = true;
  if (device.intra_threads == 0) device.intra_threads = 1;
}

void fill_training(TrainingConfig& training) {
  if (training.local_batch_size) training.batch_size = training.local_batch_size;
  training.local_batch_size.reset();
  if (!training.batch_size && !training.global_batch_size) training.batch_size = default_batch_size;
  fill_own(training.lr_decay_own, schedule_entry(training.lr_decay));
  const auto& loss = loss_entry(training.loss);
  fill_own(training.loss_own, loss);
  if (!loss.has_classes) training.metrics.clear();
}

}  // namespace

void check_run_config(const RunConfig& config, const ConfigValue& root,
                      const ModelCatalogue& models) {
  Checks(config, root, models).run();
}

void fill_defaults(RunConfig& config, const ModelCatalogue& models) {
  fill_own(config.data.own, dataset_entry(config.data.name));
  fill_model(config.model, models.find(config.model.name), config.optimizer.weight_decay);
  config.optimizer = completed(std::move(config.optimizer));
  fill_training(config.training);
  fill_device(config.device, config.training);
}

}  // namespace kolo
