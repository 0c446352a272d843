#include "kolo/train/checkpoint/checkpoint_writer.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"

// Tensors that are not in the order of their file are brought into it on the writer's thread, which
// has no business with the training's team of threads. Programs without OpenMP don't have it.
extern "C" void omp_set_num_threads(int) __attribute__((weak));

namespace kolo {

void CheckpointWriter::save(std::int64_t step, Checkpoint checkpoint, bool is_best) {
  if (is_busy()) {
    throw Error(
        fmt::format("checkpoint: the one of step {} can't be saved before the one on its way is "
                    "written: wait for it",
                    step));
  }
  on_its_way_ = std::async(
      std::launch::async, [this, step, is_best, content = std::move(checkpoint)]() mutable {
        if (omp_set_num_threads != nullptr) omp_set_num_threads(1);  // of this thread alone
        const Stopwatch watch;
        WrittenCheckpoint written{store_->save(step, content, is_best, shard_), step};
        written.seconds = watch.seconds();
        return written;
      });
}

std::optional<WrittenCheckpoint> CheckpointWriter::written() {
  if (!is_busy()) return std::nullopt;
  if (on_its_way_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return std::nullopt;
  return wait();
}

std::optional<WrittenCheckpoint> CheckpointWriter::wait() {
  if (!is_busy()) return std::nullopt;
  return on_its_way_.get();
}

}  // namespace kolo
