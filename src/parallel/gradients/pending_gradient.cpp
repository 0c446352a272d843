#include "parallel/gradients/reducer_state.h"

#include <cstring>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <torch/library.h>
#include <torch/utils.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// LibTorch registers nothing for this key and asks it before all others that a gradient has.
constexpr auto placeholder_key = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

}  // namespace

class PendingGradient::Placeholder final : public c10::TensorImpl {
 public:
  Placeholder(const torch::Tensor& values, std::string parameter)
      : TensorImpl(c10::Storage(values.storage()),
                   c10::DispatchKeySet({c10::DispatchKey::CPU, placeholder_key}), values.dtype()),
        parameter_(std::move(parameter)) {
    set_sizes_contiguous(values.sizes());
  }
  Placeholder(const Placeholder& other, const c10::VariableVersion& version,
              bool allows_other_metadata)
      : TensorImpl(c10::Storage(other.storage()), other.key_set(), other.dtype()),
        parameter_(other.parameter_),
        is_partly_averaged_(other.is_partly_averaged_) {
    copy_tensor_metadata(&other, this, version, allows_other_metadata);
    refresh_numel();
    refresh_contiguous();
  }

  // data() and detach(), with which LibTorch's optimizers and clip_grad_norm_() begin.
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version, bool allows_other_metadata) const override {
    return copy(version, allows_other_metadata);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version, bool allows_other_metadata) const override {
    return copy(version, allows_other_metadata);
  }

  void set_partly_averaged(bool is_partly_averaged) { is_partly_averaged_ = is_partly_averaged; }

  // Handles all operations on tensors with the placeholder's key.
  static void call(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
    static const std::set<std::string> harmless = {"aten::zero_", "aten::fill_.Scalar",
                                                   "aten::detach", "aten::detach_",
                                                   "aten::_foreach_zero_"};
    const auto& name = operation.schema().operator_name();
    const auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    if (harmless.contains(full)) {
      const c10::impl::ExcludeDispatchKeyGuard below(placeholder_key);
      operation.callBoxed(stack);
      return;
    }
    const auto find = [](const torch::Tensor& tensor) {
      return dynamic_cast<const Placeholder*>(tensor.unsafeGetTensorImpl());
    };
    for (const auto& argument : *stack) {
      if (argument.isTensor()) {
        if (const auto* const found = find(argument.toTensor()))
          throw Error(found->advice(name.name));
      } else if (argument.isTensorList()) {
        for (const torch::Tensor& each : argument.toTensorVector()) {
          if (const auto* const found = find(each)) throw Error(found->advice(name.name));
        }
      }
    }
    throw Error(fmt::format(
        "parallel: {} of a gradient between backward() and finish(), while it is not yet averaged "
        "over the ranks; call finish() first, of the optimizer or the reducer",
        name.name));
  }

 private:
  [[nodiscard]] c10::intrusive_ptr<TensorImpl> copy(const c10::VariableVersion& version,
                                                    bool allows_other_metadata) const {
    return c10::make_intrusive<Placeholder>(*this, version, allows_other_metadata);
  }
  [[nodiscard]] std::string advice(const std::string& operation) const {
    if (is_partly_averaged_) {
      return fmt::format(
          "parallel: {} of the gradient of {}, of which a sharded optimizer averages this rank's "
          "part only; clip with the optimizer's clip_gradients(), and call zero_grad() before the "
          "next backward()",
          operation, parameter_);
    }
    return fmt::format(
        "parallel: {} of the gradient of {} between backward() and finish(), while it is not yet "
        "averaged over the ranks; call finish() first, of the optimizer or the reducer, and then "
        "look at gradients, clip them (clip_gradients()) or let another optimizer step; step() of "
        "kolo's optimizers does all of it",
        operation, parameter_);
  }

  std::string parameter_;
  bool is_partly_averaged_ = false;
};

namespace {

// Once a process; another copy of this library may have been there before, and does the same.
void register_placeholders(torch::CppFunction call) {
  try {
    static torch::Library library(torch::Library::IMPL, "_", placeholder_key, __FILE__, __LINE__);
    library.fallback(std::move(call));
  } catch (const c10::Error&) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace

PendingGradient::PendingGradient(torch::Tensor parameter, std::string name)
    : parameter_(std::move(parameter)) {
  static const bool is_registered = [] {
    register_placeholders(torch::CppFunction::makeFromBoxedFunction<&Placeholder::call>());
    return true;
  }();
  (void)is_registered;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(parameter_.dim()) + 1, 1);
  shape.front() = 2;
  const torch::NoGradGuard no_gradient;
  original_ = torch::ones(shape, torch::TensorOptions(parameter_.scalar_type()));
  original_[0].fill_(std::numeric_limits<double>::infinity());
  values_ = original_.clone();
  placeholder_ = torch::Tensor(c10::make_intrusive<Placeholder>(values_, std::move(name)));
}

bool PendingGradient::is_as_new() const {
  return std::memcmp(values_.data_ptr(), original_.data_ptr(), original_.nbytes()) == 0;
}

void PendingGradient::put_placeholder(bool is_partly_averaged) {
  if (!is_as_new()) std::memcpy(values_.data_ptr(), original_.data_ptr(), original_.nbytes());
  static_cast<Placeholder*>(placeholder_.unsafeGetTensorImpl())
      ->set_partly_averaged(is_partly_averaged);
  parameter_.mutable_grad() = placeholder_;
}

// Not is_same(): a module's zero_grad() puts a detached tensor in its place.
bool PendingGradient::is_placeholder(const torch::Tensor& gradient) const {
  return gradient.defined() && gradient.layout() == torch::kStrided &&
         gradient.data_ptr() == values_.data_ptr();
}

PendingGradient::Fate PendingGradient::fate() const {
  const torch::Tensor& gradient = parameter_.grad();
  if (!gradient.defined()) return Fate::zeroed;
  if (!is_placeholder(gradient)) return Fate::changed;
  if (is_as_new()) return Fate::untouched;
  return values_.eq(0).all().item<bool>() ? Fate::zeroed : Fate::changed;
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

void PendingGradient::end() {
  if (aside_.defined()) parameter_.mutable_grad() = std::exchange(aside_, torch::Tensor());
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
