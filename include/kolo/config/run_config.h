#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/comm/mpi.h"
#include "kolo/data/catalogue.h"
#include "kolo/kernels/precision.h"
#include "kolo/layout/mesh_shape.h"
#include "kolo/layout/pipeline_schedule.h"
#include "kolo/nn/metrics.h"
#include "kolo/nn/model_catalogue.h"
#include "kolo/optim/catalogue.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/step_conflicts.h"

// Configuration of a training run, read from a YAML file. The defaults stand here, and the values
// that a key accepts beside its name in src/config/schema.h, the one table for reading, writing and
// lists of known keys.
namespace kolo {

struct DataConfig {
  std::string name;  // required, in any case: one of built_in_datasets()
  OwnSettings own;   // its path, crop, augmentation, ...; nothing: its defaults
  // Use only the first so many samples; dummy: required; nbody: crops an epoch, both required.
  std::optional<int64_t> n_train;
  std::optional<int64_t> n_valid;
  int workers = 1;   // threads that prepare batches, per rank; 0: none of their own
  int prefetch = 4;  // batches prepared ahead, per rank
  bool shuffle = true;
};

struct ModelConfig {
  std::string name;                  // required; one of a ModelCatalogue
  OwnSettings own;                   // its dropout, levels, ...; nothing: its defaults
  bool sync_batch_norm = false;      // batch norm over the samples of all ranks
  std::optional<double> l2;          // times the sum of squared weights; unset: the model's own
  std::vector<int64_t> input_shape;  // channels first or last; empty: the data's
  std::optional<int64_t> n_classes;  // unset: the data's
  // Source of the network's first weights: a checkpoint's or run's folder, or a file of
  // safetensors; empty: drawn from the seed.
  std::string init_from;
  std::vector<std::string> freeze;  // modules and parameters that aren't trained, by name
};

// Use of the warm-up: always, or only if lr_scaling raises the rate.
enum class WarmupWhen : std::uint8_t { always, scaled };

constexpr auto enum_names(WarmupWhen) {
  return std::to_array<EnumName<WarmupWhen>>(
      {{WarmupWhen::always, "always"}, {WarmupWhen::scaled, "scaled"}});
}

struct TrainingConfig : RateSettings {
  // One of the three; none: 64 a rank.
  std::optional<int64_t> batch_size;         // per rank
  std::optional<int64_t> local_batch_size;   // another name of it; unset when loaded
  std::optional<int64_t> global_batch_size;  // of all ranks together
  std::optional<int64_t> base_batch_size;    // the global batch that optimizer.lr is meant for
  // Above 0: so many parts of each step instead of one per rank (docs/use/reliability.md).
  int virtual_ranks = 0;
  // Passes that a rank makes each step in, one after another, with equally many samples each: less
  // memory, and the same gradients but for rounding.
  int64_t accumulation = 1;
  int64_t n_epochs = 1;
  // The training ends after so many steps at the latest, in the midst of an epoch too.
  std::optional<int64_t> max_steps;
  double lr_warmup_epochs = 0;  // epochs or steps, not both
  WarmupWhen lr_warmup_when = WarmupWhen::always;
  std::vector<RateInterval> lr_schedule;             // in order
  std::string loss = "cross_entropy";                // one of built_in_losses()
  OwnSettings loss_own;                              // its label_smoothing, ...; nothing: defaults
  std::vector<Metric> metrics = {Metric::accuracy};  // with l1 none
  // Type that forward and backward compute in. Parameters stay in float32.
  Precision precision = Precision::fp32;
  double clip_norm = 0;                 // the gradient's greatest norm; 0: as it is
  int64_t early_stopping_patience = 0;  // stop after so many epochs without a better one; 0: never
  NonFiniteStep non_finite = NonFiniteStep::stop;
  int64_t check_replicas_every = 0;  // compare all ranks' parameters every so many steps; 0: never
  // A record every so many steps; 0: none; unset: so that a run has 500 at most.
  std::optional<int64_t> log_every;
  // Per rank; unset: 1000 for data with classes, fewer for large images, and as in training for
  // fields.
  std::optional<int64_t> validation_batch_size;
  bool drop_last = false;  // leave out a last batch that is not full
};

struct CheckpointConfig {
  int64_t every_epochs = 1;       // 0: not by epochs
  int64_t every_steps = 0;        // 0: not by steps; with every_epochs 0 too: none at all
  int64_t keep = 3;               // the last so many, and the best
  bool asynchronous = true;       // written in the background, from a copy
  std::optional<int64_t> shards;  // files that as many ranks write; unset: by size (choose_shards)

  [[nodiscard]] bool saves() const { return every_epochs > 0 || every_steps > 0; }
};

// Compression of gradients between ranks (kolo/parallel/gradient_hook.h).
enum class Compression : std::uint8_t { none, bf16, fp16, powersgd };

constexpr auto enum_names(Compression) {
  return std::to_array<EnumName<Compression>>({{Compression::none, "none"},
                                               {Compression::bf16, "bf16"},
                                               {Compression::fp16, "fp16"},
                                               {Compression::powersgd, "powersgd"}});
}

struct CommunicationConfig {
  LauncherChoice launcher = LauncherChoice::automatic;   // of -n
  SharedMemory shared_memory = SharedMemory::automatic;  // between ranks of one node
  double bucket_mb = 25;                                 // MiB of gradients that travel in one call
  bool overlap = true;                                   // with the backward pass
  Compression compression = Compression::none;
  // Options of PowerSGD; unset: the library's (PowerSgdOptions).
  std::optional<int64_t> powersgd_rank;
  std::optional<int64_t> powersgd_start_step;  // steps before it travel as they are
  DeviceChannelKind device_channel = DeviceChannelKind::automatic;  // between GPUs
};

// automatic: a GPU where kolo can use one.
enum class DeviceKind : std::uint8_t { automatic, cpu, cuda };

constexpr auto enum_names(DeviceKind) {
  return std::to_array<EnumName<DeviceKind>>(
      {{DeviceKind::automatic, "auto"}, {DeviceKind::cpu, "cpu"}, {DeviceKind::cuda, "cuda"}});
}

struct DeviceConfig {
  DeviceKind kind = DeviceKind::automatic;
  // Settings of GPUs, but for the last.
  bool shared = false;          // ranks of a node may have the same one
  bool channels_last = true;    // of convolutions, where precision has 16 bits
  bool cudnn_benchmark = true;  // cuDNN tries its algorithms in the first steps
  bool tf32 = false;            // products of float32 in TF32: 10 bits of mantissa
  bool deterministic = false;   // the same bits in every run, where LibTorch can
  bool augment = true;          // images are varied and preprocessed there
  bool graphs = false;          // each step is recorded, and given to the GPU in one call
  int intra_threads = 0;  // threads of one operation; 0: the node's cores divided by its ranks
};

// Division of the work: samples among replicas, a sample's rows among the ranks of a replica, a
// network's stages among the ranks of a pipeline. See MeshShape.
struct ParallelConfig {
  int64_t data = -1;             // replicas; -1: what is left of the ranks
  std::vector<int64_t> spatial;  // ranks along each axis of a sample, slowest first; none: whole
  int64_t pipeline = 1;          // ranks with a part of the network each
  // Parts of a replica's batch; unset: as many as divide it, at most twice the pipeline's length.
  std::optional<int64_t> microbatches;
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool recompute = false;  // inner results are computed again in backward rather than kept

  [[nodiscard]] MeshRequest mesh() const { return {data, spatial, pipeline, 1}; }
  [[nodiscard]] bool shares_samples() const {
    return std::ranges::any_of(spatial, [](auto ranks) { return ranks > 1; });
  }
};

struct RunConfig {
  std::string description;
  std::string output_dir;  // unless given: results/<file's stem>[-<configuration's name>][-<job>]
  uint64_t seed = 1;
  DataConfig data;
  ModelConfig model;
  OptimizerConfig optimizer;
  TrainingConfig training;
  CheckpointConfig checkpoint;
  CommunicationConfig communication;
  ParallelConfig parallel;
  DeviceConfig device;
  // Sources of the values ("FILE:12", "command line") by key, such as "training.batch_size"; the
  // key
  // "" stands for the whole configuration.
  std::map<std::string, std::string> origins;
};

// Throws the InputError that a value is wrong: "FILE:12: training.batch_size: " and `reason`. For a
// key that was not given it names the place of the section, for a configuration without a file the
// key alone.
[[noreturn]] void refuse_setting(const RunConfig& config, std::string_view key,
                                 std::string_view reason);

// Setting by an option of the command line, which messages then name: {"--n_epochs",
// "training.n_epochs=3"}.
struct OptionSetting {
  std::string option, setting;
};

// Source of a configuration.
struct ConfigSource {
  std::filesystem::path file;
  std::optional<std::string> name;  // the top-level mapping to use; unset: the file itself
  // "training.batch_size=32", the value in YAML; later ones win.
  std::vector<std::string> overrides;
  std::vector<OptionSetting> options = {};  // win over overrides
  // Instead of the file's output_dir, as it stands: no variables in it.
  std::string output_dir = {};
  // A scheduler's number of the job, which the default output_dir carries; empty: none.
  std::string job = {};
};

// Reads and checks a configuration, as far as that goes without data, model and machine.
//
// YAML's anchors, aliases and merge keys (`<<: *base`, `<<: [*a, *b]`) work; a merge brings keys
// that the mapping lacks, also into mappings that both have. An override replaces the whole value
// of its key. In output_dir and data.path `$NAME` and `${NAME}` stand for environment variables,
// `$$` for a dollar, and a leading `~` for $HOME.
//
// Keys that only other choices have are refused. Where the command line chooses an optimizer, data
// set or the like, the file's keys of others are passed over, and so are merged keys where another
// one is chosen over them. The same holds for sizes of batches.
//
// `models`: the choices of model.name.
//
// InputError begins with "FILE:LINE: ", "command line: " or the option, and names the key, the
// value found and the values accepted.
[[nodiscard]] RunConfig load_run_config(const ConfigSource& source,
                                        const ModelCatalogue& models = built_in_models());

// Settings that are paths of data or models to read: "data.train_dir".
[[nodiscard]] std::vector<std::string> input_paths();

// Setting that a word was meant for: "training.n_epochs" for "n_epochs" and "num_epochs",
// "optimizer.lr" for "lr"; empty if none is near.
[[nodiscard]] std::string nearest_setting(std::string_view word);

// The configuration as YAML, with every key; a value that depends on the data or the model is null,
// with a comment that says so. load_run_config() reads back the same configuration on any machine
// and in any environment.
[[nodiscard]] std::string to_yaml(const RunConfig& config);

// Every key of a configuration, "training.batch_size", with its value in one line; "unset" where
// it has none. In the order of the keys in a configuration.
using Settings = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Settings settings_of(const RunConfig& config);

// A key with different values in two configurations, as in YAML; "unset" for none.
struct SettingChange {
  std::string key;  // "training.batch_size"
  std::string before, now;
};

// In the order of the keys in a configuration.
[[nodiscard]] std::vector<SettingChange> changes_between(const RunConfig& before,
                                                         const RunConfig& now);

}  // namespace kolo
