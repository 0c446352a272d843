#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint/safetensors.h"

namespace torch::nn {
class Module;
}

namespace kolo {

// Everything that a run needs to go on: weights and buffers, the optimizer's state, and whatever
// else the trainer counts.
struct Checkpoint {
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;
  nlohmann::json state = nlohmann::json::object();  // an object; save() sets its "step"
};

// A checkpoint and the folder that it was read from.
struct LoadedCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  Checkpoint content;
};

// A module's tensors by name; the very tensors, detached.
[[nodiscard]] std::vector<NamedTensor> module_parameters(const torch::nn::Module& module);
[[nodiscard]] std::vector<NamedTensor> module_buffers(const torch::nn::Module& module);
// Parameters, then buffers.
[[nodiscard]] std::vector<NamedTensor> module_tensors(const torch::nn::Module& module);

// InputError unless both hold the same names with the same shapes: it names the first difference.
void require_same_tensors(const std::vector<NamedTensor>& saved,
                          const std::vector<NamedTensor>& wanted);

// The saved tensor of that name; Error unless it is there and of this shape.
[[nodiscard]] const torch::Tensor& saved_tensor(const std::vector<NamedTensor>& saved,
                                                const std::string& name, torch::IntArrayRef sizes);
// Writes the saved tensors' values into those of the same names.
void copy_tensors(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& into);

// A checkpoint that was saved.
struct WrittenCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  double seconds = 0;  // that writing it took
};

// Saves in a store on a thread of its own, one checkpoint at a time, while the caller goes on. The
// thread ends with each save. Whoever is given the writer's checkpoints must not change their
// tensors before they are written (SnapshotMemory has copies that nobody changes).
//
// One thread calls it. An Error of the store comes out of the next call of save(), wait() or
// written(), once.
class CheckpointWriter {
 public:
  // The store must outlive the writer, which alone uses it as long as something is on its way.
  explicit CheckpointWriter(CheckpointStore& store, ShardWriter shard = {})
      : store_(&store), shard_(std::move(shard)) {}
  // Waits until what is on its way is written. Its Error is lost then: ask before.
  ~CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  [[nodiscard]] bool is_busy() const { return on_its_way_.valid(); }
  [[nodiscard]] const ShardWriter& shard() const { return shard_; }

  // Begins a save (CheckpointStore::save). Error when one is still on its way: wait() first.
  void save(std::int64_t step, Checkpoint checkpoint, bool is_best);
  // The checkpoint written since the last call of this or wait(). Doesn't wait.
  [[nodiscard]] std::optional<WrittenCheckpoint> written();
  // The same, once it is: waits for it.
  [[nodiscard]] std::optional<WrittenCheckpoint> wait();

 private:
  CheckpointStore* store_;
  ShardWriter shard_;
  std::future<WrittenCheckpoint> on_its_way_;  // its destructor waits
};

}  // namespace kolo
