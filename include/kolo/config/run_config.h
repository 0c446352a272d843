#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// What one training run is to do, read from a YAML file. The defaults stand here; which values a
// key accepts stands beside its name in src/config/schema.h, the one table that reading, writing
// and the lists of known keys come from.
namespace kolo {

struct DataConfig {
  std::string name;                // required: mnist | fashion_mnist | dummy (random samples)
  std::string path;                // folder; fashion_mnist: Debian's, unless given; mnist: required
  std::optional<int64_t> n_train;  // use only the first so many samples; dummy: required
  std::optional<int64_t> n_valid;
  int workers = 1;   // threads that prepare batches, per rank; 0: none of their own
  int prefetch = 4;  // batches prepared ahead, per rank
  bool shuffle = true;
  std::vector<int64_t> input_shape;  // dummy: one sample's shape, without the batch; required there
  int64_t n_classes = 10;            // dummy: labels are 0 .. n_classes - 1
};

struct ModelConfig {
  std::string name;                  // required; nn knows which names exist
  std::optional<double> dropout;     // unset: the model's own
  std::vector<int64_t> input_shape;  // empty: the data's
  std::optional<int64_t> n_classes;  // unset: the data's
};

struct OptimizerConfig {
  std::string name = "sgd";         // required: sgd | adam | adamw, in any case
  double lr = 0.01;                 // for one rank
  std::string lr_scaling = "none";  // with the number of ranks: none | linear | sqrt
  double momentum = 0;              // sgd, as are dampening and nesterov
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double beta1 = 0.9;  // adam and adamw, as are beta2 and epsilon
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

struct TrainingConfig {
  int64_t batch_size = 64;  // per rank
  int64_t n_epochs = 1;
  double lr_warmup_epochs = 0;  // epochs or steps, not both
  int64_t lr_warmup_steps = 0;
  std::string loss = "cross_entropy";
  int64_t log_every = 0;                 // a record every so many steps; 0: none
  int64_t validation_batch_size = 1000;  // per rank
  bool drop_last = false;                // leave out a last batch that is not full
};

struct CheckpointConfig {
  bool enabled = true;
  int64_t every_epochs = 1;  // 0: not by epochs
  int64_t every_steps = 0;   // 0: not by steps
  int64_t keep = 3;          // the last so many, and the best
  bool at_start = false;     // one at step 0 as well
};

struct CommunicationConfig {
  std::string backend = "auto";        // auto | mpi | solo
  std::string shared_memory = "auto";  // between ranks of one node: auto | on | off
  double bucket_mb = 25;               // MiB of gradients that travel in one call
  double first_bucket_mb = 1;          // the first is small, so that communication begins early
  bool overlap = true;                 // with the backward pass
};

struct DeviceConfig {
  int intra_threads = 0;  // threads of one operation; 0: the node's cores divided by its ranks
  int inter_threads = 1;  // operations at a time
};

struct RunConfig {
  std::string description;
  std::string output_dir;  // unless given: results/<file's stem>[-<configuration's name>]
  uint64_t seed = 1;
  DataConfig data;
  ModelConfig model;
  OptimizerConfig optimizer;
  TrainingConfig training;
  CheckpointConfig checkpoint;
  CommunicationConfig communication;
  DeviceConfig device;
};

// Where a configuration comes from.
struct ConfigSource {
  std::filesystem::path file;
  std::optional<std::string> name;  // the top-level mapping to use; unset: the file itself
  // "training.batch_size=32", the value in YAML; later ones win.
  std::vector<std::string> overrides;
};

// Reads and checks a configuration; all that can be known without looking at data, model or machine
// is right afterwards.
//
// YAML's anchors, aliases and merge keys (`<<: *base`, `<<: [*a, *b]`) work; a merge copies keys
// that the mapping lacks and does not look into nested mappings. An override replaces the whole
// value of its key. In output_dir and data.path `$NAME` and `${NAME}` stand for environment
// variables, `$$` for a dollar, and a leading `~` for $HOME.
//
// Throws InputError; what it says begins with "FILE:LINE: " or "command line: ", and names the key,
// the value found and the values accepted.
[[nodiscard]] RunConfig load_run_config(const ConfigSource& source);

// The configuration as YAML, with every default spelled out. load_run_config() gives the same
// configuration from it on any machine, whatever its environment.
[[nodiscard]] std::string to_yaml(const RunConfig& config);

}  // namespace kolo
