#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kolo {

// Shards are files of one checkpoint that several ranks write at the same time; each tensor is
// whole in one of them.
inline constexpr std::uint64_t bytes_of_a_shard = 256 << 20;
inline constexpr int most_shards = 99'999;  // as many as file names have digits for

// A shard for every bytes_of_a_shard, at most one per rank; at least 1.
[[nodiscard]] int choose_shards(std::uint64_t bytes, int ranks);

// Shard of each tensor: the largest tensors first, each to the shard with the fewest bytes.
// `first`: further bytes of shard 0. A pure function, so that all writers plan alike.
[[nodiscard]] std::vector<int> plan_shards(std::span<const std::uint64_t> bytes, int shards,
                                           std::uint64_t first = 0);

// One of the processes that write a checkpoint together.
struct ShardWriter {
  int index = 0;  // 0 makes the folder, and the manifest when all others are done
  int count = 1;
  // Exchanges texts: gives every writer those of all, in their order. Called by the saving thread,
  // equally often on each; not of a single writer.
  std::function<std::vector<std::string>(const std::string&)> exchange = {};
};

// See kolo/train/checkpoint/checkpoint.h.
struct Checkpoint;
struct LoadedCheckpoint;

// whole: everything, checked. headers: the state and the tensors' names, shapes and types (as
// tensors of the device `meta`): a few kilobytes, which tell a missing or shortened file, but not a
// changed one. checked: these, and the checksums of all files, in the time of the whole.
enum class CheckpointReading { whole, headers, checked };

struct CheckpointOptions {
  std::filesystem::path folder;     // made by the first save()
  int keep_last = 3;                // at least 1
  bool makes_folders_above = true;  // else the one above must be there, as a run's own
};

// The checkpoints of one run:
//
//   folder/step-00000938/model.safetensors      Checkpoint::model
//                        optimizer.safetensors  Checkpoint::optimizer
//                        state.json             Checkpoint::state
//                        manifest.json          written last: step, whether it is the best, size
//                        and CRC-32 of the others
//
// Several shards are called model-00001-of-00004.safetensors and so on. Each tensor is whole in one
// of them, and the manifest says how many there are; whoever reads sees no difference.
//
// A step folder appears whole or not at all: it is made aside (.step-NNNNNNNN.part), every file and
// the folder flushed, then renamed. The best is the newest whose manifest says so, which can't
// disagree with what is on disk after a crash.
//
// One process writes to a folder at a time (rank 0); any number may read. One thread at a time;
// methods block for the time of the disk.
class CheckpointStore {
 public:
  struct Entry {
    std::filesystem::path path;
    std::int64_t step = 0;
    bool is_best = false;  // it was the best so far when it was saved
  };

  // InputError: keep_last below 1 or no folder.
  explicit CheckpointStore(CheckpointOptions options);

  // Writes the checkpoint of `step` and returns its path. It replaces one of the same step; at
  // every moment load_newest() finds one of the two. Then leftovers of interrupted saves go, and of
  // the steps up to this one all but the newest keep_last and the best. Error: it could not be
  // written; the earlier checkpoints are as they were.
  //
  // Removes only files that a store has written, and their folder if it is empty then. A folder of
  // that name without a manifest of kolo's stays, or is renamed (step-00000025.1) where it is in
  // the way.
  //
  // Several processes save one step together, each its own shard's tensors (plan_shards()); state,
  // is_best and keep_last are writer 0's. The checkpoint appears when all shards are on disk; else
  // all have an Error that names the shard. Collective over the writers (ShardWriter::exchange).
  std::filesystem::path save(std::int64_t step, const Checkpoint& checkpoint, bool is_best,
                             const ShardWriter& writer = {});

  // The checkpoints whose manifest can be read and whose files have the right sizes, newest first.
  // Checksums are not computed.
  [[nodiscard]] std::vector<Entry> list() const;

  // Checkpoints that list() leaves out, newest first, and why.
  struct Damaged {
    std::filesystem::path path;
    std::int64_t step = 0;
    std::string reason;
  };
  [[nodiscard]] std::vector<Damaged> damaged() const;

  // The newest of list() that was the best when it was saved.
  [[nodiscard]] std::optional<Entry> best() const;

  // The newest checkpoint that verifies: manifest present, sizes and checksums right, contents
  // readable. Each damaged one passed over is reported through `warn`, with its path and what is
  // wrong. nullopt: there is none.
  [[nodiscard]] std::optional<LoadedCheckpoint> load_newest(
      const std::function<void(const std::string&)>& warn,
      CheckpointReading reading = CheckpointReading::whole) const;

  // True if load_newest() would find one; keeps nothing of what it reads.
  [[nodiscard]] bool holds_one(const std::function<void(const std::string&)>& warn) const;

  // The checkpoint in one step folder, whose files are read once. Error: it is damaged, and how.
  [[nodiscard]] static LoadedCheckpoint load(const std::filesystem::path& path,
                                             CheckpointReading reading = CheckpointReading::whole);

  // Step folders, whole or not, newest first. Reads none of them.
  [[nodiscard]] std::vector<std::filesystem::path> folders() const;

  // Removes every checkpoint after `step` (-1: all): a run that restarts there writes them anew.
  void remove_after(std::int64_t step);

 private:
  CheckpointOptions options_;
};

}  // namespace kolo
