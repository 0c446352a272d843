#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/comm/data_type.h"

namespace kolo {

// Description of a parameter, as a plan needs it.
struct ParameterDescription {
  std::string name;
  std::vector<std::int64_t> shape;
  DataType type = DataType::float32;
  // Strides of a parameter whose memory is dense but in another order than its shape's (a
  // convolution's weight by taps, for instance); empty for all others.
  std::vector<std::int64_t> strides = {};
  // Further names of a tensor that a module has several times (tied weights).
  std::vector<std::string> other_names = {};

  [[nodiscard]] std::int64_t count() const;  // elements
  [[nodiscard]] std::string names() const;   // "first.weight", "first.weight (also last.weight)"
  // "conv1.weight float32 [10, 1, 5, 5]", and its strides where it has them
  [[nodiscard]] std::string describe() const;
};

struct BucketLimits {
  std::int64_t first_bytes =
      std::int64_t{1} << 20;  // the first is small, so that communication begins early in backward
  std::int64_t bytes = std::int64_t{25}
                       << 20;  // a parameter larger than this has a bucket to itself
};

// Position of a parameter in its bucket. Parameters begin at multiples of 64 bytes.
struct BucketEntry {
  std::size_t parameter = 0;  // its index in the list the plan was made from
  std::int64_t offset = 0;    // elements from the bucket's start
  std::int64_t count = 0;
};

// A run of parameters of one type that travels in one piece.
struct Bucket {
  DataType type = DataType::float32;
  std::int64_t offset_bytes = 0;  // from the arena's start; a multiple of 64
  std::int64_t count = 0;         // elements, the gaps between parameters included
  std::vector<BucketEntry> entries;
};

// How parameters are cut into buckets: the unit of communication, optimizer steps and broadcasts. A
// pure function of the parameters and limits, so that ranks which agree on those agree on all.
struct BucketPlan {
  std::vector<ParameterDescription> parameters;  // as given
  std::vector<Bucket> buckets;  // in the order in which backward is expected to finish them
  std::int64_t total_bytes = 0;

  // Equal for equal plans, different (with all likelihood) for different ones.
  [[nodiscard]] std::uint64_t fingerprint() const;
};

// Buckets in the reverse order of the parameters: backward finishes the last layer first. The order
// given is the order of registration (named_parameters()).
[[nodiscard]] BucketPlan plan_buckets(std::vector<ParameterDescription> parameters,
                                      const BucketLimits& limits = {});

// Buckets in another order, for example that in which gradients really became ready: `order` lists
// every parameter's index once. Takes as many bytes in all, whatever the order.
[[nodiscard]] BucketPlan plan_buckets(std::vector<ParameterDescription> parameters,
                                      const BucketLimits& limits,
                                      std::span<const std::size_t> order);

// Compares the plans of all ranks. Error on every rank when they differ: it names the first
// parameter that does, two ranks and what each has. Collective; costs one 8-byte all-gather when
// all is well.
void require_equal_plans(const Communicator& communicator, const BucketPlan& plan);

}  // namespace kolo
