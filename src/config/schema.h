#pragma once

#include "config/rule.h"
#include "kolo/config/run_config.h"

// Every key of a configuration: its name, the field it fills and the values it accepts. Reading,
// writing and the lists of known keys all come from these lines; a new key is a line here and a
// field in run_config.h.
namespace kolo {

template <typename Field>
void visit(Field& field, DataConfig& data) {
  field("name", data.name, OneOf{{"mnist", "fashion_mnist", "dummy"}}, Presence::required);
  field("path", data.path, PathText{});
  field("n_train", data.n_train, positive);
  field("n_valid", data.n_valid, positive);
  field("workers", data.workers,
        NumberRule{" from 0 to 1024", [](long double x) { return x >= 0 && x <= 1024; }});
  field("prefetch", data.prefetch,
        NumberRule{" from 1 to 65536", [](long double x) { return x >= 1 && x <= 65536; }});
  field("shuffle", data.shuffle, AnyBool{});
  field("input_shape", data.input_shape, positive);
  field("n_classes", data.n_classes, positive);
}

template <typename Field>
void visit(Field& field, ModelConfig& model) {
  field("name", model.name, AnyText{}, Presence::required);
  field("dropout", model.dropout, fraction);
  field("input_shape", model.input_shape, positive);
  field("n_classes", model.n_classes, positive);
}

template <typename Field>
void visit(Field& field, OptimizerConfig& optimizer) {
  field("name", optimizer.name, OneOf{{"sgd", "adam", "adamw"}}, Presence::required);
  field("lr", optimizer.lr, positive);
  field("lr_scaling", optimizer.lr_scaling, OneOf{{"none", "linear", "sqrt"}});
  field("momentum", optimizer.momentum, fraction);
  field("dampening", optimizer.dampening, fraction);
  field("weight_decay", optimizer.weight_decay, not_negative);
  field("nesterov", optimizer.nesterov, AnyBool{});
  field("beta1", optimizer.beta1, fraction);
  field("beta2", optimizer.beta2, fraction);
  field("epsilon", optimizer.epsilon, positive);
}

template <typename Field>
void visit(Field& field, TrainingConfig& training) {
  field("batch_size", training.batch_size, positive);
  field("n_epochs", training.n_epochs, positive);
  field("lr_warmup_epochs", training.lr_warmup_epochs, not_negative);
  field("lr_warmup_steps", training.lr_warmup_steps, not_negative);
  field("loss", training.loss, OneOf{{"cross_entropy"}});
  field("log_every", training.log_every, not_negative);
  field("validation_batch_size", training.validation_batch_size, positive);
  field("drop_last", training.drop_last, AnyBool{});
}

template <typename Field>
void visit(Field& field, CheckpointConfig& checkpoint) {
  field("enabled", checkpoint.enabled, AnyBool{});
  field("every_epochs", checkpoint.every_epochs, not_negative);
  field("every_steps", checkpoint.every_steps, not_negative);
  field("keep", checkpoint.keep, positive);
  field("at_start", checkpoint.at_start, AnyBool{});
}

template <typename Field>
void visit(Field& field, CommunicationConfig& communication) {
  field("backend", communication.backend, OneOf{{"auto", "mpi", "solo"}});
  field("shared_memory", communication.shared_memory, OneOf{{"auto", "on", "off"}});
  field("bucket_mb", communication.bucket_mb, mebibytes);
  field("first_bucket_mb", communication.first_bucket_mb, mebibytes);
  field("overlap", communication.overlap, AnyBool{});
}

template <typename Field>
void visit(Field& field, DeviceConfig& device) {
  field("intra_threads", device.intra_threads, not_negative);
  field("inter_threads", device.inter_threads, positive);
}

template <typename Field>
void visit(Field& field, RunConfig& run) {
  field("description", run.description, AnyText{});
  field("output_dir", run.output_dir, PathText{});
  field("seed", run.seed, not_negative);
  field("data", run.data);
  field("model", run.model);
  field("optimizer", run.optimizer);
  field("training", run.training);
  field("checkpoint", run.checkpoint);
  field("communication", run.communication);
  field("device", run.device);
}

}  // namespace kolo
