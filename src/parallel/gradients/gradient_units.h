#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/parallel/gradient_reducer.h"

namespace kolo {

// A reducer's parameters, numbered: those of the arena in its order, then the sparse ones. And what
// of their gradients is averaged in one piece, a unit: the buckets, then the sparse parameters one
// by one.
//
// Tasks on the communication thread own what they use, but neither this nor the communicator.
class GradientUnits {
 public:
  // The average of a sparse gradient.
  struct SparseAverage {
    torch::Tensor gradient;
    std::int64_t bytes = 0;  // of indices and values that this rank has sent
  };

  // `communicator`: the arena's. The options must outlive this.
  GradientUnits(Communicator communicator, std::shared_ptr<const ParameterArena> arena,
                const ReducerOptions& options);

  // To be called after the arena's plan has changed.
  void lay_out();

  [[nodiscard]] std::size_t parameters() const { return unit_of_.size(); }
  [[nodiscard]] std::size_t size() const { return arena_->buckets() + sparse_.size(); }
  [[nodiscard]] bool is_sparse(std::size_t parameter) const {
    return parameter >= arena_->parameters().size();
  }
  [[nodiscard]] const torch::Tensor& tensor(std::size_t parameter) const;
  [[nodiscard]] std::string name(std::size_t parameter) const;
  [[nodiscard]] std::size_t unit_of(std::size_t parameter) const { return unit_of_[parameter]; }
  [[nodiscard]] std::vector<std::size_t> parameters_of(std::size_t unit) const;

  // Whether all there is to average is one bucket, as of small networks. Backward is over when it
  // is ready, or nearly, so that there is nothing that its average could overlap with.
  [[nodiscard]] bool are_one_bucket() const;
  // Of one in the host's memory start() makes the average in the calling thread, which takes less
  // than waking the communication thread and waiting.
  [[nodiscard]] bool are_done_at_once() const;

  // Starts a unit's average: of the arena's gradients, or of the sparse parameter's grad(). Returns
  // the bytes, which of sparse gradients are not known yet.
  [[nodiscard]] std::int64_t start(std::size_t unit);
  [[nodiscard]] const std::vector<Work>& works() const { return works_; }  // by unit

  // Of a sparse parameter, once its work is done.
  [[nodiscard]] const std::shared_ptr<SparseAverage>& sparse_average(std::size_t parameter) const {
    return sparse_[parameter - arena_->parameters().size()].average;
  }
  // Lets go of the averages that this step has handed out, and returns their bytes.
  [[nodiscard]] std::int64_t release_sparse_averages();
  // Forgets the works of a step.
  void start_over() { works_.assign(size(), Work()); }

 private:
  struct SparseParameter {
    ParameterArena::NamedTensor parameter;
    std::shared_ptr<SparseAverage> average = nullptr;
  };

  void start_sparse(std::size_t unit);

  Communicator communicator_;
  std::shared_ptr<const ParameterArena> arena_;
  const ReducerOptions& options_;
  std::vector<SparseParameter> sparse_;
  std::vector<std::size_t> unit_of_;                            // by parameter
  std::vector<std::shared_ptr<const GradientBucket>> buckets_;  // for the hook
  std::vector<Work> works_;
};

}  // namespace kolo
