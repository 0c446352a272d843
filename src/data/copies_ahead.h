#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include "kolo/data/loader.h"

namespace kolo {

// Batches on their way to a device, in a row: copied by a stream of its own, each with an event
// that says when it is there. Belongs to one thread at a time.
class CopiesAhead {
 public:
  // The one that is asked for, and two ahead of it.
  static constexpr std::size_t most = 3;

  explicit CopiesAhead(const torch::Device& device);
  CopiesAhead(const CopiesAhead&) = delete;
  CopiesAhead& operator=(const CopiesAhead&) = delete;
  // Waits for the copies under way, which read the host's memory.
  ~CopiesAhead();

  [[nodiscard]] const torch::Device& device() const { return device_; }
  [[nodiscard]] std::size_t size() const { return ahead_.size(); }
  // Begins to copy a batch, and keeps its memory until that is done.
  void add(Batch batch);
  // The first batch of the row. The thread's current stream waits for it; the host goes on.
  [[nodiscard]] Batch take();
  // Lets go of the host's memory that has been copied.
  void hand_back();
  // Empties the row.
  void drop();

 private:
  // What a copy reads, until its event has come.
  struct Source {
    torch::Tensor input, target;
    c10::Event copied;
  };
  struct Copy {
    Batch batch;
    Source source;
  };

  [[nodiscard]] torch::Tensor copied(const torch::Tensor& tensor) const;

  torch::Device device_;
  c10::Stream stream_;
  std::deque<Copy> ahead_;
  std::vector<Source> left_;  // of batches that are no longer in the row
};

}  // namespace kolo
