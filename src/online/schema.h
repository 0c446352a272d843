#pragma once

#include "kolo/nn/loss.h"
#include "kolo/online/online_config.h"
#include "optim/optimizer_schema.h"
#include "settings/choice_reader.h"

// Every key of a network inside a simulation: its name, the field it fills and the values it
// accepts.
namespace kolo {

// The section of the model, and what may stand there.
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

// A whole configuration.
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

}  // namespace kolo
