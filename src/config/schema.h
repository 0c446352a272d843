#pragma once

#include "kolo/config/run_config.h"
#include "kolo/nn/loss.h"
#include "optim/optimizer_schema.h"
#include "settings/choice_reader.h"

// Every key of a configuration: its name, the field it fills and the values it accepts. Reading,
// writing and the lists of known keys all come from these lines; a new key is a line here and a
// field in run_config.h.
namespace kolo {

inline constexpr long double most_samples = 1e15L;  // in a batch of all ranks
inline constexpr long double most_of_data =
    4294967295.0L;  // samples: the sampler counts in 32 bits
inline constexpr long double most_threads = 1024;

template <typename Field>
void visit(Field& field, DataConfig& data) {
  field(choice_of(data.name, data.own, built_in_datasets()));
  field("n_train", data.n_train, positive.up_to(most_of_data), Unset{"all"});
  field("n_valid", data.n_valid, positive.up_to(most_of_data),
        Unset{"all; of dummy an eighth of n_train"});
  field("workers", data.workers,
        NumberRule{" from 0 to 1024", [](long double x) { return x >= 0 && x <= 1024; }});
  field("prefetch", data.prefetch,
        NumberRule{" from 1 to 65536", [](long double x) { return x >= 1 && x <= 65536; }});
  field("shuffle", data.shuffle, AnyBool{});
}

// The section of the model, and the models that it may name.
struct ModelSection {
  ModelConfig& model;
  const ModelCatalogue& models;
};

template <typename Field>
void visit(Field& field, ModelSection& section) {
  ModelConfig& model = section.model;
  field(choice_of(model.name, model.own, section.models.entries()));
  field("sync_batch_norm", model.sync_batch_norm, AnyBool{});
  field("l2", model.l2, not_negative, Unset{"the model's own; 0 with a weight decay"});
  field("input_shape", model.input_shape, positive.up_to(most_of_a_kind));
  field("n_classes", model.n_classes, positive.up_to(most_of_a_kind), Unset{"the data's"});
  field("init_from", model.init_from, PathText{});
  field("freeze", model.freeze, AnyText{});
}

template <typename Field>
void visit(Field& field, RateInterval& interval) {
  field("start_epoch", interval.start_epoch, not_negative.up_to(most_of_a_kind));
  field("end_epoch", interval.end_epoch, positive.up_to(most_of_a_kind), Unset{"the last"});
  field("multiplier", interval.multiplier, not_negative);
}

inline constexpr long double most_virtual_ranks = 1 << 16;

template <typename Field>
void visit(Field& field, TrainingConfig& training) {
  field("batch_size", training.batch_size, positive.up_to(most_of_a_kind),
        Unset{"as global_batch_size says"});
  field("local_batch_size", training.local_batch_size, positive.up_to(most_of_a_kind),
        Unset{"the same as batch_size"});
  field("global_batch_size", training.global_batch_size, positive.up_to(most_samples),
        Unset{"the ranks' batches together"});
  field("base_batch_size", training.base_batch_size, positive.up_to(most_samples),
        Unset{"a rank's batch"});
  field("virtual_ranks", training.virtual_ranks, not_negative.up_to(most_virtual_ranks));
  field("accumulation", training.accumulation, positive.up_to(most_of_a_kind));
  field("n_epochs", training.n_epochs, positive.up_to(most_of_a_kind));
  field("max_steps", training.max_steps, positive, Unset{"as many as n_epochs has"});
  field("lr_warmup_epochs", training.lr_warmup_epochs, not_negative.up_to(most_of_a_kind));
  visit_warmup(field, training);
  field("lr_warmup_when", training.lr_warmup_when, AnyName{});
  field("lr_schedule", training.lr_schedule);
  visit_decay(field, training);
  field(choice_of(training.loss, training.loss_own, built_in_losses(), "loss", Presence::optional));
  field("metrics", training.metrics, AnyName{});
  field("precision", training.precision, AnyName{});
  field("clip_norm", training.clip_norm, not_negative);
  field("early_stopping_patience", training.early_stopping_patience, not_negative);
  field("non_finite", training.non_finite, AnyName{});
  field("check_replicas_every", training.check_replicas_every, not_negative);
  field("log_every", training.log_every, not_negative);
  field("validation_batch_size", training.validation_batch_size, positive.up_to(most_of_a_kind),
        Unset{"1000; of targets that are numbers a rank's batch"});
  field("drop_last", training.drop_last, AnyBool{});
}

template <typename Field>
void visit(Field& field, CheckpointConfig& checkpoint) {
  field("every_epochs", checkpoint.every_epochs, not_negative);
  field("every_steps", checkpoint.every_steps, not_negative);
  field("keep", checkpoint.keep, positive.up_to(most_of_a_kind));
  field("asynchronous", checkpoint.asynchronous, AnyBool{});
  field("shards", checkpoint.shards, positive.up_to(most_of_a_kind),
        Unset{"one for every 256 MiB, at most one per rank"});
}

template <typename Field>
void visit(Field& field, CommunicationConfig& communication) {
  field("launcher", communication.launcher, AnyName{});
  field("shared_memory", communication.shared_memory, AnyName{});
  field("bucket_mb", communication.bucket_mb, mebibytes);
  field("overlap", communication.overlap, AnyBool{});
  field("compression", communication.compression, AnyName{});
  field("powersgd_rank", communication.powersgd_rank, positive.up_to(most_of_a_kind),
        Unset{"1 with the compression powersgd"});
  field("powersgd_start_step", communication.powersgd_start_step,
        not_negative.up_to(most_of_a_kind), Unset{"1000 with the compression powersgd"});
  field("device_channel", communication.device_channel, AnyName{});
}

inline constexpr long double most_ranks = 1 << 20;

template <typename Field>
void visit(Field& field, ParallelConfig& parallel) {
  field("data", parallel.data,
        NumberRule{" above 0, or -1 for what is left of the ranks",
                   [](long double x) { return x == -1 || (x >= 1 && x <= most_ranks); }});
  field("spatial", parallel.spatial, positive.up_to(most_ranks));
  field("pipeline", parallel.pipeline, positive.up_to(most_ranks));
  field("microbatches", parallel.microbatches, positive.up_to(most_of_a_kind),
        Unset{"as many as divide the batch, at most 2 x pipeline"});
  field("schedule", parallel.schedule, AnyName{});
  field("recompute", parallel.recompute, AnyBool{});
}

template <typename Field>
void visit(Field& field, DeviceConfig& device) {
  field("kind", device.kind, AnyName{});
  field("shared", device.shared, AnyBool{});
  field("channels_last", device.channels_last, AnyBool{});
  field("cudnn_benchmark", device.cudnn_benchmark, AnyBool{});
  field("tf32", device.tf32, AnyBool{});
  field("deterministic", device.deterministic, AnyBool{});
  field("augment", device.augment, AnyBool{});
  field("graphs", device.graphs, AnyBool{});
  field("intra_threads", device.intra_threads, not_negative.up_to(most_threads));
}

// A whole configuration.
struct RunSections {
  RunConfig& run;
  const ModelCatalogue& models;
};

template <typename Field>
void visit(Field& field, RunSections& sections) {
  RunConfig& run = sections.run;
  ModelSection model{run.model, sections.models};
  field("description", run.description, AnyText{});
  field("output_dir", run.output_dir, PathText{});
  field("seed", run.seed, not_negative);
  field("data", run.data);
  field("model", model);
  field("optimizer", run.optimizer);
  field("training", run.training);
  field("checkpoint", run.checkpoint);
  field("communication", run.communication);
  field("parallel", run.parallel);
  field("device", run.device);
}

// The configuration as to_yaml() writes it.
[[nodiscard]] ConfigValue tree_of(const RunConfig& config);

}  // namespace kolo
