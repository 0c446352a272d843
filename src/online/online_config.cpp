#include "kolo/online/online_config.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/nn/loss.h"
#include "optim/optimizer_schema.h"
#include "settings/choice_reader.h"
#include "settings/section.h"
#include "settings/yaml/yaml.h"

namespace kolo {

// Section of the model with the models that it may name. The functions below list every key of a
// configuration: its name, the field it fills and the values it accepts.
struct OnlineModelSection {
  OnlineModelConfig& model;
  const ModelCatalogue& models;
};

template <typename Field>
void visit(Field& field, OnlineModelSection& section) {
  OnlineModelConfig& model = section.model;
  field(choice_of(model.name, model.own, section.models.entries()));
  field("inputs", model.inputs, positive.up_to(most_of_a_kind));
  field("outputs", model.outputs, positive.up_to(most_of_a_kind));
}

template <typename Field>
void visit(Field& field, OnlineTrainingConfig& training) {
  field("samples", training.samples, AnyName{});
  field("column_axis", training.column_axis,
        NumberRule{" from -8 to 7", [](long double x) { return x >= -8 && x <= 7; }});
  field("batch_size", training.batch_size, positive.up_to(most_of_a_kind));
  field("every", training.every, positive);
  field("n_steps", training.n_steps, positive.up_to(most_of_a_kind));
  field("milliseconds", training.milliseconds, not_negative.up_to(1e9L));
  field("background", training.background, AnyBool{});
  field(choice_of(training.loss, training.loss_own, built_in_losses(), "loss", Presence::optional));
  field("loss_file", training.loss_file, PathText{});
  field("ranks", training.ranks, not_negative.up_to(most_of_a_kind));
  field("rank_stride", training.rank_stride, positive.up_to(most_of_a_kind));
  field("apart", training.apart, AnyBool{});
  field("clip_norm", training.clip_norm, not_negative);
  field("non_finite", training.non_finite, AnyName{});
  visit_warmup(field, training);
  visit_decay(field, training);
  field("max_steps", training.max_steps, positive, Unset{"no end"});
  field("log_every", training.log_every, not_negative);
}

template <typename Field>
void visit(Field& field, OnlineReservoirConfig& reservoir) {
  field("policy", reservoir.policy, AnyName{});
  field("capacity", reservoir.capacity, AnyText{});
  field("minimum", reservoir.minimum, not_negative);
  field("reuse", reservoir.reuse, not_negative);
  field("when_full", reservoir.when_full, AnyName{});
  field("mailbox", reservoir.mailbox, positive.up_to(most_of_a_kind));
}

template <typename Field>
void visit(Field& field, NormalizationConfig& normalization) {
  field("inputs", normalization.inputs, AnyName{});
  field("targets", normalization.targets, AnyName{});
  field("freeze_after", normalization.freeze_after, not_negative);
}

template <typename Field>
void visit(Field& field, OnlineCheckpointConfig& checkpoint) {
  field("reservoir", checkpoint.reservoir, AnyBool{});
}

// Whole configuration.
struct OnlineSections {
  OnlineConfig& online;
  const ModelCatalogue& models;
};

template <typename Field>
void visit(Field& field, OnlineSections& sections) {
  OnlineConfig& online = sections.online;
  OnlineModelSection model{online.model, sections.models};
  field("output_dir", online.output_dir, PathText{});
  field("seed", online.seed, not_negative);
  field("model", model);
  field("optimizer", online.optimizer);
  field("training", online.training);
  field("reservoir", online.reservoir);
  field("normalization", online.normalization);
  field("checkpoint", online.checkpoint);
}

namespace {

// Model "own", which the program makes itself.
ModelEntry own_model() {
  ModelEntry entry{{.name = "own", .description = "the program's, made in C++"}};
  set_settings<NoSettings>(entry);
  return entry;
}

void check_model(const OnlineModelConfig& model, const RefuseKey& fail) {
  if (model.name == "own" || model.name == "torchscript") return;
  if (model.inputs.empty()) {
    fail("model.inputs", fmt::format("model {} is made for one shape of inputs: the lengths of "
                                     "a sample without the batch, [2] for two features",
                                     model.name));
  }
  if (model.outputs.empty())
    fail("model.outputs", "the lengths of a sample's output without the batch, [1] for a number");
}

void check_training(const OnlineTrainingConfig& training, const ConfigValue& root,
                    const RefuseKey& fail) {
  const auto is_given = [values = root.find("training")](std::string_view key) {
    const auto* const value = values == nullptr ? nullptr : values->find(key);
    return value != nullptr && value->kind != ConfigValue::Kind::nothing;
  };
  if (!training.loss_file.empty() && is_given("loss"))
    fail("training.loss_file", "there is a training.loss as well; give one of the two");
  if (!training.ranks.empty() && is_given("rank_stride"))
    fail("training.rank_stride", "there is a list of training.ranks as well; give one of the two");
  if (training.milliseconds > 0 && is_given("n_steps"))
    fail("training.milliseconds", "there is training.n_steps as well; give one of the two");
  if (training.apart && training.ranks.empty() && training.rank_stride == 1)
    fail("training.apart",
         "all ranks train, so none would compute; give training.ranks, or a "
         "training.rank_stride of 2 or more");
  if (training.apart && training.background)
    fail("training.background", "ranks that train apart do so beside the others already");
  const auto& decay = schedule_entry(training.lr_decay);
  if (training.lr_decay != "none" && !training.max_steps) {
    fail("training.lr_decay",
         fmt::format("{} reaches its end with the last step; give training.max_steps", decay.name));
  }
  if (decay.is_own_warmup && training.lr_warmup_steps > 0)
    fail("training.lr_warmup_steps", fmt::format("{} is its own warm-up", decay.name));
}

void check_reservoir(const OnlineConfig& config, const RefuseKey& fail) {
  const auto& reservoir = config.reservoir;
  if (!bytes_from_text(reservoir.capacity)) {
    fail("reservoir.capacity",
         fmt::format("expected a size such as 512 MiB or 2 GB, got \"{}\"", reservoir.capacity));
  }
  if (reservoir.minimum > 0 && reservoir.minimum < config.training.batch_size &&
      config.training.samples != SampleKind::whole) {
    fail("reservoir.minimum", fmt::format("{} samples are less than a batch of {}",
                                          reservoir.minimum, config.training.batch_size));
  }
}

void check_whole(const OnlineConfig& config, const RefuseKey& fail) {
  if (config.training.samples != SampleKind::whole) return;
  if (config.training.batch_size != 1)
    fail("training.batch_size", "with training.samples whole a sample is a batch: give 1");
  const auto& normalization = config.normalization;
  if (normalization.inputs != Normalized::none || normalization.targets != Normalized::none)
    fail("normalization", "with training.samples whole tensors have no channels to normalize");
}

void check_config(const OnlineConfig& config, const ConfigValue& root) {
  const RefuseKey fail = [&root](std::string_view key, std::string_view reason) {
    throw InputError(fmt::format("{}: {}: {}", origin_of(root, key), key, reason));
  };
  check_optimizer(config.optimizer, [&fail](std::string_view key, std::string_view reason) {
    fail(fmt::format("optimizer.{}", key), reason);
  });
  if (config.optimizer.sharded) {
    fail("optimizer.sharded",
         "networks inside simulations don't shard their optimizer; leave it out "
         "(optimizer.shared_step has a node's ranks share it)");
  }
  if (optimizer_entry(config.optimizer.name).averages) {
    fail("optimizer.name",
         fmt::format("{} trains other parameters than those to infer with, and networks inside "
                     "simulations have one kind; use another optimizer",
                     config.optimizer.name));
  }
  check_model(config.model, fail);
  check_training(config.training, root, fail);
  check_reservoir(config, fail);
  check_whole(config, fail);
}

}  // namespace

OnlineConfig load_online_config(const std::string& source, std::span<const std::string> overrides,
                                const ModelCatalogue& models) {
  ModelCatalogue with_own = models;
  with_own.add_entry(own_model());
  OnlineConfig config;
  OnlineSections sections{config, with_own};
  const auto settings = known_settings(sections);
  const bool is_text = source.find('\n') != std::string::npos;
  auto root = is_text ? read_yaml_document(source, "configuration") : read_yaml_file(source);
  for (const auto& text : overrides) apply_override(root, text);
  SectionReader::read_section(root, "", sections, settings);
  check_config(config, root);
  config.optimizer = completed(std::move(config.optimizer));
  return config;
}

std::string online_config_text(OnlineConfig config, const ModelCatalogue& models) {
  OnlineSections sections{config, models};
  return write_yaml(TreeWriter::tree_of_section(sections));
}

std::optional<std::uint64_t> bytes_from_text(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(number) || number <= 0) return std::nullopt;
  std::string unit;
  for (; *end != 0; ++end) {
    if (*end != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*end)));
  }
  constexpr std::string_view letters = "kmgt";
  double factor = 1;
  if (!unit.empty() && unit != "b") {
    const auto power = letters.find(unit.front());
    const std::string_view rest = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || (rest != "b" && rest != "ib" && !rest.empty()))
      return std::nullopt;
    factor = std::pow(rest == "ib" ? 1024.0 : 1000.0, static_cast<double>(power + 1));
  }
  const double bytes = number * factor;
  if (bytes < 1 || bytes > 9e18) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace kolo
