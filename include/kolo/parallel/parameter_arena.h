#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "kolo/base/named_tensor.h"
#include "kolo/comm/communicator.h"
#include "kolo/parallel/bucket_plan.h"

namespace kolo {

namespace parallel {
struct DistinctTensor;
}

// The memory of a model's trainable parameters and their gradients: flat, aligned buffers, cut into
// buckets, in the host's memory or a device's. The parameters' tensors become views into it, of the
// same shape and, where they are dense, strides. Gradients lie in memory that the ranks of a node
// share, where there is any.
//
// A tensor that the module has under several names (tied weights) is one parameter, called by the
// first. Error for two tensors in the same memory, and for parameters on several devices. The
// tensors keep the memory alive, so module and arena may outlive each other.
class ParameterArena {
 public:
  // Leaves out parameters that don't require gradients, and those named in `excluded` (for sparse
  // gradients; Error for a name that is no trainable parameter's). Collective (it allocates);
  // throws Error on every rank when the ranks' parameters differ.
  ParameterArena(const Communicator& communicator, const torch::nn::Module& module,
                 const BucketLimits& limits = {}, std::span<const std::string> excluded = {});
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  // Device of parameters and gradients.
  [[nodiscard]] const torch::Device& device() const { return device_; }
  [[nodiscard]] const BucketPlan& plan() const { return plan_; }
  [[nodiscard]] std::size_t buckets() const { return plan_.buckets.size(); }
  // Counts from 1, and changes whenever the plan does.
  [[nodiscard]] std::int64_t version() const { return version_; }

  // Communicator in whose memory the gradients lie and on which they travel, in an order of its own
  // (Communicator::with_own_order), so that other collectives can't come between. Where `given` has
  // other ranks, or is checked and the arena's is not: one of given's own.
  [[nodiscard]] Communicator gradient_communicator(const Communicator& given) const;

  // Cuts the same parameters into buckets in another order (see plan_buckets()), in the same
  // gradient memory and new parameter memory. Values stay, also those of gradients that are views
  // here; flat tensors and views taken before are void, and so are buffers laid out like the
  // parameters. False, with nothing changed, for the order that is in use.
  //
  // Collective; throws Error on every rank when the orders differ. Not during backward() or a
  // collective on the arena. Copies all parameters and gradients.
  bool rebuild(const Communicator& communicator, std::span<const std::size_t> order);

  // Trainable parameters that were excluded, and those that were frozen, when the arena was made.
  [[nodiscard]] const std::vector<NamedTensor>& excluded() const { return excluded_; }
  [[nodiscard]] const std::vector<NamedTensor>& frozen() const { return frozen_; }

  // In the order of plan().parameters.
  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] const torch::Tensor& gradient_view(std::size_t parameter) const {
    return gradient_views_[parameter];
  }
  // Whether the parameter's grad() lies where that view does. It may be another tensor: a module's
  // zero_grad() detaches it.
  [[nodiscard]] bool holds_gradient(std::size_t parameter) const;

  // Whether optimizers over the arena update a parameter in this step: not while it is frozen, nor
  // when no rank has a gradient for it and none is left from before. It and its state then stay as
  // they are, as in torch::optim.
  [[nodiscard]] bool takes_part(std::size_t parameter) const {
    return !is_idle_[parameter] && parameters_[parameter].requires_grad();
  }
  // The reducer's part of that. The same on every rank.
  void set_idle(std::size_t parameter, bool is_idle) { is_idle_[parameter] = is_idle; }

  // One-dimensional views of a whole bucket, the gaps between parameters (zeros) included.
  [[nodiscard]] const torch::Tensor& flat_parameters(std::size_t bucket) const {
    return flat_parameters_[bucket];
  }
  [[nodiscard]] const torch::Tensor& flat_gradients(std::size_t bucket) const {
    return flat_gradients_[bucket];
  }

  // Flat gradients of all ranks of this node, by local rank; none where they can't share memory.
  [[nodiscard]] std::vector<torch::Tensor> gradients_on_node(std::size_t bucket) const;

  // Moves the parameters into one memory of a node's ranks, with the first rank's values: each rank
  // then writes into the parameters of all. The memory is zero-filled, aligned to 64 bytes, of
  // plan().total_bytes. Flat tensors and views taken before are void; rebuild() undoes it.
  // Collective over `node`.
  void share_parameters(const Communicator& node, const std::shared_ptr<std::byte>& memory);

  // Takes parameters that have got other memory (torch::load() of the module, set_data(), to())
  // back into the arena, with the values they have now. Returns problems, for an Error; empty:
  // none. They are parameters of another type or shape and, while a shared_ptr has the module, new
  // trainable ones. Somebody's view of the old memory (p.data() before set_data()) keeps its
  // values: if there is one, all parameters get new memory. A walk over the parameters.
  [[nodiscard]] std::string take_back_parameters();

  // Private zero-filled buffers laid out like the parameters (an optimizer's state), one flat
  // tensor a bucket.
  [[nodiscard]] std::vector<torch::Tensor> allocate_like_parameters() const;
  // Flat tensors like those, in memory of the caller's, which they keep alive.
  [[nodiscard]] std::vector<torch::Tensor> flat_views(
      const std::shared_ptr<std::byte>& memory) const;
  // A parameter's view, with its shape and strides, of such buffers.
  [[nodiscard]] torch::Tensor view_of(std::size_t parameter,
                                      const std::vector<torch::Tensor>& flat) const;

  // Every rank's parameters become root's, the excluded ones too: one broadcast a bucket.
  void broadcast_parameters(const Communicator& communicator, int root = 0);

 private:
  struct Location {
    std::size_t bucket = 0;
    std::int64_t offset = 0;
  };

  void collect(const torch::nn::Module& module, std::span<const std::string> excluded);
  void require_device(const parallel::DistinctTensor& parameter);
  void allocate_gradients();
  [[nodiscard]] torch::Tensor flat_bucket(const torch::Tensor& memory, std::size_t bucket) const;
  [[nodiscard]] std::vector<torch::Tensor> flat_buckets(const torch::Tensor& memory) const;
  void lay_out(BucketPlan plan);
  [[nodiscard]] bool lies_here(std::size_t parameter) const;
  [[nodiscard]] bool has_other_views() const;
  enum class Values : bool { of_parameters, of_memory };
  void move_parameters(std::vector<torch::Tensor> flat, Values values = Values::of_parameters);
  void broadcast_flat_parameters(const Communicator& communicator, int root) const;

  std::weak_ptr<const torch::nn::Module> module_;
  std::set<const torch::TensorImpl*> known_;  // the module's parameters, of whatever kind
  BucketLimits limits_;
  std::optional<Communicator> communicator_;  // of the gradients
  BucketPlan plan_;
  std::int64_t version_ = 1;
  torch::Device device_ = torch::kCPU;
  bool shared_parameters_ = false;                // lie in memory of share_parameters()
  torch::Tensor gradient_memory_;                 // bytes
  std::vector<torch::Tensor> gradient_memories_;  // of the node's ranks, where they share memory
  std::vector<NamedTensor> excluded_;
  std::vector<NamedTensor> frozen_;
  std::vector<torch::Tensor> parameters_;
  std::vector<Location> locations_;  // by parameter
  std::vector<bool> is_idle_;        // by parameter
  std::vector<torch::Tensor> flat_parameters_;
  std::vector<torch::Tensor> flat_gradients_;
  std::vector<torch::Tensor> gradient_views_;
};

// Broadcasts root's buffers (running means and the like) and parameters that don't require
// gradients, which lie outside the arena. Collective.
void broadcast_outside_arena(const Communicator& communicator, const torch::nn::Module& module,
                             int root = 0);

}  // namespace kolo
