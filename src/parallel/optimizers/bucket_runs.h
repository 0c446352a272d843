#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo::parallel {

// A stretch of a bucket that an optimizer takes in one call, in elements.
struct BucketRun {
  std::int64_t offset = 0;  // from the bucket's start
  std::int64_t count = 0;
  bool is_vector = false;  // see FlatSlice
  std::int64_t step = 1;   // of these parameters, from 1
  std::size_t group = 0;   // see ParameterGroups
};

// How an optimizer over an arena trains the parameters: in groups with an algorithm each, and which
// steps each parameter has left out, because it took no part in them (see
// ParameterArena::takes_part). As in torch::optim a parameter's steps are counted apart, which
// matters to what is corrected by their number.
class ParameterGroups {
 public:
  using Algorithm = std::shared_ptr<const FlatOptimizer>;

  // Takes algorithms of one kind, and each parameter's place among them. InputError for several
  // kinds.
  ParameterGroups(std::vector<Algorithm> algorithms, std::vector<std::size_t> group_of);

  [[nodiscard]] const std::vector<Algorithm>& algorithms() const { return algorithms_; }

  // A step of a bucket: counts the parameters that are left out of it.
  void begin(const ParameterArena& arena, std::size_t bucket);

  // How elements [begin, end) of a bucket have to be cut: where parameters are left out of the step
  // or have made fewer of them, between groups, between vectors and other parameters where that
  // matters, or into whole parameters; most often not at all. The gaps between parameters belong to
  // the run before them, except that whole parameters come without; then the stretch must be the
  // whole bucket. `step` is that of parameters that have left out none.
  [[nodiscard]] std::vector<BucketRun> runs(const ParameterArena& arena, std::size_t bucket,
                                            std::int64_t step, std::int64_t begin,
                                            std::int64_t end) const;

  // Steps left out, by parameter; for checkpoints.
  [[nodiscard]] std::span<std::int64_t> skipped() { return skipped_; }
  [[nodiscard]] std::span<const std::int64_t> skipped() const { return skipped_; }

 private:
  std::vector<Algorithm> algorithms_;
  std::vector<std::size_t> group_of_;  // by parameter
  std::vector<std::int64_t> skipped_;  // by parameter
};

}  // namespace kolo::parallel
