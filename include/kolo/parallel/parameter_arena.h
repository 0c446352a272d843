#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/bucket_plan.h"

namespace kolo {

namespace parallel {
struct DistinctTensor;
}

// The memory of a model's trainable parameters and their gradients: flat, aligned buffers, cut into
// buckets. The parameters' tensors become views into it, of the same shape, and of the same strides
// where they are dense. Gradients lie in memory that the ranks of a node share, where that is to be
// had. On a device everything lies in the device's memory.
//
// A tensor that the module has under several names (tied weights) is one parameter, called by the
// first. Two tensors in the same memory are an Error.
//
// Made once, from parameters that are all on one device; not copied, not moved, and it may outlive
// or predecease the module (the tensors keep the memory alive).
class ParameterArena {
 public:
  struct NamedTensor {
    std::string name;
    torch::Tensor tensor;
  };

  // Parameters that don't require gradients are left as they are, and so are those named in
  // `excluded` (for sparse gradients; Error for a name that is no trainable parameter's).
  // Collective (it allocates); throws Error on every rank when the ranks' parameters differ.
  ParameterArena(const Communicator& communicator, const torch::nn::Module& module,
                 const BucketLimits& limits = {}, std::span<const std::string> excluded = {});
  ParameterArena(const ParameterArena&) = delete;
  ParameterArena& operator=(const ParameterArena&) = delete;

  // Device of parameters and gradients.
  [[nodiscard]] const torch::Device& device() const { return device_; }
  [[nodiscard]] const BucketPlan& plan() const { return plan_; }
  [[nodiscard]] std::size_t buckets() const { return plan_.buckets.size(); }
  // From 1; another one whenever the plan has changed.
  [[nodiscard]] std::int64_t version() const { return version_; }

  // The communicator in whose memory the gradients lie and on which they travel, in an order of its
  // own (Communicator::with_own_order): whatever else the program calls between backward() and a
  // step, on whichever rank a bucket is ready before it. For those who are made with `given`: one
  // of given's own where its ranks, or whether it is checked, are not those of the arena's.
  [[nodiscard]] Communicator gradient_communicator(const Communicator& given) const;

  // Cuts the same parameters into buckets in another order (see plan_buckets()), in the same
  // gradient memory and new parameter memory. Values stay, also those of gradients that are views
  // here; everybody's flat tensors and views are void, and buffers laid out like the parameters
  // don't fit any more. False, and nothing is changed, when the order is the one in use.
  //
  // Collective: throws Error on every rank when the ranks' orders differ. Not while a collective on
  // the arena or a backward() is under way. Copies all parameters and gradients.
  bool rebuild(const Communicator& communicator, std::span<const std::size_t> order);

  // Trainable parameters that were excluded, and parameters that did not require a gradient, when
  // the arena was made.
  [[nodiscard]] const std::vector<NamedTensor>& excluded() const { return excluded_; }
  [[nodiscard]] const std::vector<NamedTensor>& frozen() const { return frozen_; }

  // In the order of plan().parameters.
  [[nodiscard]] const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] const torch::Tensor& gradient_view(std::size_t parameter) const {
    return gradient_views_[parameter];
  }
  // Whether the parameter's grad() lies where that view does. It need not be the same tensor: a
  // module's zero_grad() puts a detached one in its place.
  [[nodiscard]] bool holds_gradient(std::size_t parameter) const;

  // Whether optimizers over the arena update a parameter in this step. Not while it is frozen
  // (requires_grad() is false), nor when the reducer has found that no rank has a gradient for it
  // and it has none from before: it stays as it is then, and its state too, as in torch::optim.
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

  // Moves the parameters into host memory of the caller's: zero-filled, aligned to 64 bytes, of
  // plan().total_bytes. Flat tensors and views of them that were taken before are void. rebuild()
  // takes them to memory of its own again.
  void move_parameters(const std::shared_ptr<std::byte>& memory);

  // Moves them into memory of which the ranks of a node have one copy, whose gaps are zeros: with
  // the values that the first of them has. What a rank writes into its parameters is written into
  // all of theirs from then on. Collective over `node`.
  void share_parameters(const Communicator& node, const std::shared_ptr<std::byte>& memory);

  // Parameters that have got other memory since (torch::load() of the module, set_data(), to()) lie
  // here again afterwards, with the values they have now. Returns what can't be mended, for an
  // Error: parameters of another type or shape and, while the module lives and a shared_ptr has it,
  // trainable ones that it did not have before. Empty: nothing. A walk over the parameters.
  // A view of the old memory that somebody keeps (p.data() before set_data()) keeps its values: if
  // there is one, all parameters get new memory.
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
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;
  };

  void collect(const torch::nn::Module& module, std::span<const std::string> excluded);
  void require_device(const parallel::DistinctTensor& parameter);
  [[nodiscard]] std::vector<torch::Tensor> flat_parts(const torch::Tensor& memory) const;
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
  bool shared_parameters_ = false;
  bool has_own_memory_ = true;     // for parameters; false: the caller's
  torch::Tensor gradient_memory_;  // bytes
  std::vector<NamedTensor> excluded_;
  std::vector<NamedTensor> frozen_;
  std::vector<torch::Tensor> parameters_;
  std::vector<Place> places_;  // by parameter
  std::vector<bool> is_idle_;  // by parameter
  std::vector<torch::Tensor> flat_parameters_;
  std::vector<torch::Tensor> flat_gradients_;
  std::vector<torch::Tensor> gradient_views_;
};

// What a module has outside its arena becomes root's: buffers (running means and the like) and
// parameters that don't require gradients.
void broadcast_outside_arena(const Communicator& communicator, const torch::nn::Module& module,
                             int root = 0);

}  // namespace kolo
