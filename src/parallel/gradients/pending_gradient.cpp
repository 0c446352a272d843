#include "parallel/gradients/reducer_state.h"

#include <c10/core/TensorImpl.h>
#include <fmt/format.h>
#include <torch/library.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// LibTorch registers nothing for this key and asks it before all others that a gradient has.
constexpr auto placeholder_key = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

}  // namespace

// State that a placeholder shares with its copies.
struct PendingGradient::Notes {
  std::string parameter;
  bool is_partly_averaged = false;
  Fate fate = Fate::untouched;
};

// A tensor without memory: LibTorch refuses to give its data.
class PendingGradient::Placeholder final : public c10::TensorImpl {
 public:
  Placeholder(torch::IntArrayRef shape, caffe2::TypeMeta type, std::shared_ptr<Notes> notes)
      : TensorImpl(c10::DispatchKeySet({c10::DispatchKey::CPU, placeholder_key}), type,
                   torch::Device(torch::kCPU)),
        notes_(std::move(notes)) {
    set_sizes_contiguous(shape);
  }

  // Called by data(), with which LibTorch's optimizers and clip_grad_norm_() begin.
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version, bool allows_other_metadata) const override {
    return copy(version, allows_other_metadata);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version, bool allows_other_metadata) const override {
    return copy(version, allows_other_metadata);
  }

  // The notes of a placeholder; null for other tensors.
  static Notes* notes_of(const torch::Tensor& tensor) {
    const auto* const found = dynamic_cast<const Placeholder*>(tensor.unsafeGetTensorImpl());
    return found == nullptr ? nullptr : found->notes_.get();
  }

  // Handles all operations on tensors with the placeholder's key.
  static void call(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
    const auto& name = operation.operator_name();
    if (name.name == "aten::detach" || name.name == "aten::detach_") return;  // it is its result
    if (name.name == "aten::zero_") return note(stack->back().toTensor(), true);
    if (name.name == "aten::fill_" && name.overload_name == "Scalar") {
      const bool is_zeroed = torch::jit::pop(*stack).toScalar().toDouble() == 0;
      return note(stack->back().toTensor(), is_zeroed);
    }
    if (name.name == "aten::_foreach_zero_") {
      for (const torch::Tensor& each : torch::jit::pop(*stack).toTensorVector()) note(each, true);
      return;
    }
    for (const auto& argument : *stack) {
      if (argument.isTensor()) {
        refuse(argument.toTensor(), name.name);
      } else if (argument.isTensorList()) {
        for (const torch::Tensor& each : argument.toTensorVector()) refuse(each, name.name);
      }
    }
    throw Error(fmt::format("parallel: {} of a gradient that is not yet averaged", name.name));
  }

 private:
  [[nodiscard]] c10::intrusive_ptr<TensorImpl> copy(const c10::VariableVersion& version,
                                                    bool allows_other_metadata) const {
    auto result = c10::make_intrusive<Placeholder>(sizes(), dtype(), notes_);
    copy_tensor_metadata(this, result.get(), version, allows_other_metadata);
    return result;
  }

  static void note(torch::Tensor tensor, bool is_zeroed) {
    if (auto* const notes = notes_of(tensor))
      notes->fate = is_zeroed ? Fate::zeroed : Fate::changed;
    else
      tensor.zero_();
  }

  // Error for a placeholder; nothing for other tensors.
  static void refuse(const torch::Tensor& tensor, const std::string& operation) {
    const auto* const notes = tensor.defined() ? notes_of(tensor) : nullptr;
    if (notes == nullptr) return;
    if (notes->is_partly_averaged) {
      throw Error(fmt::format(
          "parallel: {} of the gradient of {}, of which a sharded optimizer averages this rank's "
          "part only; clip with the optimizer's clip_gradients(), and call zero_grad() before the "
          "next backward()",
          operation, notes->parameter));
    }
    throw Error(fmt::format(
        "parallel: {} of the gradient of {} between backward() and finish(), while it is not yet "
        "averaged over the ranks; call finish() first, of the optimizer or the reducer, and then "
        "look at gradients, clip them (clip_gradients()) or let another optimizer step; step() of "
        "kolo's optimizers does all of it",
        operation, notes->parameter));
  }

  std::shared_ptr<Notes> notes_;
};

namespace {

// Registers once a process; another copy of this library may have done the same before.
void register_placeholders(torch::CppFunction call) {
  try {
    static torch::Library library(torch::Library::IMPL, "_", placeholder_key, __FILE__, __LINE__);
    library.fallback(std::move(call));
  } catch (const c10::Error&) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace

PendingGradient::PendingGradient(torch::Tensor parameter, std::string name)
    : parameter_(std::move(parameter)),
      notes_(std::make_shared<Notes>(Notes{.parameter = std::move(name)})) {
  static const bool is_registered = [] {
    register_placeholders(torch::CppFunction::makeFromBoxedFunction<&Placeholder::call>());
    return true;
  }();
  (void)is_registered;
  placeholder_ = torch::Tensor(
      c10::make_intrusive<Placeholder>(parameter_.sizes(), parameter_.dtype(), notes_));
}

void PendingGradient::put_placeholder(bool is_partly_averaged) {
  notes_->fate = Fate::untouched;
  notes_->is_partly_averaged = is_partly_averaged;
  parameter_.mutable_grad() = placeholder_;
}

bool PendingGradient::is_placeholder(const torch::Tensor& gradient) const {
  return gradient.defined() && Placeholder::notes_of(gradient) == notes_.get();
}

PendingGradient::Fate PendingGradient::fate() const {
  const torch::Tensor& gradient = parameter_.grad();
  if (!gradient.defined()) return Fate::zeroed;
  return is_placeholder(gradient) ? notes_->fate : Fate::changed;
}

void PendingGradient::hold() {
  if (is_held_) return;
  aside_ = parameter_.grad();
  is_held_ = true;
  is_kept_ = false;
  put_placeholder(false);
}

PendingGradient::Fate PendingGradient::give_back() {
  const auto what = fate();
  if (what == Fate::zeroed) {
    aside_ = torch::Tensor();
    is_stale_ = false;
  }
  parameter_.mutable_grad() = std::exchange(aside_, torch::Tensor());
  is_held_ = false;
  return what;
}

void PendingGradient::open() {
  parameter_.mutable_grad() = later_;
  is_open_ = true;
}

bool PendingGradient::look() {
  auto what = Fate::untouched;
  if (is_open_) {
    later_ = parameter_.grad();
    is_open_ = false;
  } else {
    what = fate();
  }
  if (what == Fate::zeroed) {
    is_discarded_ = true;
    is_stale_ = false;
    later_ = torch::Tensor();
  }
  put_placeholder(false);
  return what != Fate::changed;
}

void PendingGradient::keep() {
  aside_ = torch::Tensor();
  is_held_ = false;
  is_kept_ = true;
  put_placeholder(true);
}

PendingGradient::Fate PendingGradient::look_at_kept() {
  const auto what = fate();
  if (what == Fate::untouched) return what;
  if (is_placeholder(parameter_.grad())) parameter_.mutable_grad() = torch::Tensor();
  is_kept_ = false;
  return what;
}

void PendingGradient::drop_kept() {
  if (!is_kept_) return;
  is_stale_ = look_at_kept() != Fate::zeroed;
  is_kept_ = false;
  if (is_stale_) parameter_.mutable_grad() = torch::Tensor();
}

void PendingGradient::reset() {
  if (!is_kept_ && (is_open_ || is_placeholder(parameter_.grad())))
    parameter_.mutable_grad() = aside_;
  aside_ = later_ = torch::Tensor();
  is_held_ = is_open_ = is_discarded_ = is_stale_ = false;
}

void PendingGradient::release() {
  is_kept_ = false;
  reset();
}

}  // namespace kolo
