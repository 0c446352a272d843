#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"

// Parameters that are cut among the ranks of a group, such as DeviceMesh::axis(MeshAxis::tensor):
// which they are, and how they are put together for a checkpoint and cut again. Parameters of
// layers that say nothing are replicated.
namespace kolo {

// How the whole parameter is cut: along `dimension` it has `blocks` of the same length one after
// another (the queries, keys and values of an attention, for example), of each of which rank r has
// the r-th part.
struct ParameterCut {
  std::int64_t dimension = 0;
  std::int64_t blocks = 1;
};

struct CutParameter {
  std::string name;
  ParameterCut cut;
};

// A layer whose own parameters are not the same, or do not have the same gradients, on all ranks of
// its group. Names are those in named_parameters(false).
class PartsOfParameters {
 public:
  PartsOfParameters() = default;
  PartsOfParameters(const PartsOfParameters&) = default;
  PartsOfParameters& operator=(const PartsOfParameters&) = default;
  virtual ~PartsOfParameters() = default;

  // Parameters of which this rank has a part.
  [[nodiscard]] virtual std::vector<CutParameter> cut_parameters() const { return {}; }
  // Parameters that are replicated, but are used on each rank for its part of a sequence: their
  // gradients are still to be added up over the group (sum_sequence_gradients()).
  [[nodiscard]] virtual std::vector<std::string> sequence_parameters() const { return {}; }
};

// The same of all of a module's layers, with the names of module.named_parameters().
[[nodiscard]] std::vector<CutParameter> cut_parameters(const torch::nn::Module& module);
[[nodiscard]] std::vector<std::string> sequence_parameters(const torch::nn::Module& module);

// This rank's part of a whole tensor, in memory of its own. Local. InputError where the ranks don't
// divide the blocks.
[[nodiscard]] torch::Tensor part_of_parameter(const Communicator& group, const torch::Tensor& whole,
                                              const ParameterCut& cut);
// The whole tensor of the ranks' parts, on every rank: a parameter, or an optimizer's state for it,
// which is cut alike. Collective; one all-gather. Not seen by autograd.
[[nodiscard]] torch::Tensor whole_parameter(const Communicator& group, const torch::Tensor& part,
                                            const ParameterCut& cut);

// All parameters of a module as a network without parts has them, by the names and in the order of
// named_parameters(): copies, on every rank. Collective; one all-gather per cut parameter.
[[nodiscard]] torch::OrderedDict<std::string, torch::Tensor> whole_parameters(
    const Communicator& group, const torch::nn::Module& module);

// The reverse, in place: parameters get their values, or this rank's part of them. Local.
// InputError, before anything is changed, where a parameter is missing or has another shape: it
// says which.
void set_whole_parameters(const Communicator& group, torch::nn::Module& module,
                          const torch::OrderedDict<std::string, torch::Tensor>& whole);

}  // namespace kolo
