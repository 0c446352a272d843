// LibTorch's operators on fake CUDA's devices: those of the host, on the same memory.
//
// LibTorch's own kernels for CUDA can't run here. Each operator that has both a kernel for CUDA and
// one for the host gets, in the place of the former, one that waits for the current stream, runs
// the latter over the tensors' memory, and takes new tensors over to the device. While the stream
// is captured, the graph gets this as a node. It also runs at once, so that shapes and indices are
// known, but leaves alone what is older than the capture.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/native/Copy.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "machine.h"

namespace {

using fake_cuda::Access;
using fake_cuda::Machine;
using torch::jit::Stack;

// They run no kernel, or have a way of their own to the host.
const std::set<std::string>& kept() {
  static const std::set<std::string> names = {"aten::set_",
                                              "aten::resize_",
                                              "aten::record_stream",
                                              "aten::is_set_to",
                                              "aten::_pin_memory",
                                              "aten::is_pinned",
                                              "aten::_local_scalar_dense",
                                              "aten::copy_",
                                              "aten::_efficientzerotensor"};
  return names;
}

// CompositeExplicitAutograd's kernels of these call kernels that only CUDA has.
constexpr std::array composites = {"aten::convolution", "aten::convolution_backward"};

// Memory that was taken while a stream is captured, by the capture.
class CapturedMemory {
 public:
  void add(const fake_cuda::Capture& capture, const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(id_, capture.id) != capture.id) storages_.clear();
    storages_.insert(tensor.storage().data());
  }
  [[nodiscard]] bool contains(const fake_cuda::Capture& capture, const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    return id_ == capture.id && storages_.contains(tensor.storage().data());
  }

 private:
  std::mutex mutex_;
  unsigned long long id_ = 0;
  std::set<const void*> storages_;
} captured_memory;

// Memory of tensors on the device, as tensors of the host.
class HostViews {
 public:
  explicit HostViews(bool copies) : copies_(copies) {}

  at::Tensor view(const at::Tensor& tensor, bool is_written) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    auto host = view_of(tensor);
    // One that an operator may resize needs memory of its own.
    if (copies_ || (is_written && tensor.numel() == 0))
      host = host.clone(at::MemoryFormat::Preserve);
    originals_.emplace(host.unsafeGetTensorImpl(), tensor);
    hosts_.push_back(host);
    note(tensor, is_written);
    return host;
  }
  // The tensor of which `host` is a view, or an empty one.
  [[nodiscard]] at::Tensor original(const at::Tensor& host) const {
    const auto found = originals_.find(host.unsafeGetTensorImpl());
    return found == originals_.end() ? at::Tensor() : found->second;
  }
  [[nodiscard]] std::set<const c10::TensorImpl*> all() const {
    std::set<const c10::TensorImpl*> all;
    for (const auto& host : hosts_) all.insert(host.unsafeGetTensorImpl());
    return all;
  }
  // Memory of tensors that the operator has made larger.
  void take_over_resized() {
    for (const auto& host : hosts_) {
      const at::Tensor tensor = original(host);
      if (host.sizes() == tensor.sizes()) continue;
      tensor.resize_(host.sizes());
      if (!copies_) view_of(tensor).copy_(host);
    }
  }
  // Writes the operator's results, which are in copies, to memory that the capture has taken.
  void write_back(const fake_cuda::Capture& capture) {
    for (const auto& host : hosts_) {
      const at::Tensor tensor = original(host);
      if (captured_memory.contains(capture, tensor)) view_of(tensor).copy_(host);
    }
  }
  static at::Tensor view_of(const at::Tensor& tensor) {
    return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                         tensor.options().device(at::kCPU).requires_grad(false));
  }
  void note(const at::Tensor& tensor, bool is_written) {
    if (tensor.numel() == 0) return;
    std::size_t last = 0;
    for (std::int64_t i = 0; i < tensor.dim(); ++i)
      last += static_cast<std::size_t>((tensor.size(i) - 1) * tensor.stride(i));
    accesses_.push_back({static_cast<const char*>(tensor.data_ptr()),
                         (last + 1) * tensor.element_size(), is_written});
  }
  [[nodiscard]] const std::vector<Access>& accesses() const { return accesses_; }

 private:
  bool copies_;
  std::map<const c10::TensorImpl*, at::Tensor> originals_;
  std::vector<at::Tensor> hosts_;
  std::vector<Access> accesses_;
};

// One of the host in the state that the device's would be in, which goes on as if it had been used.
at::Generator host_generator(const at::Generator& generator) {
  if (!generator.defined() || generator.device().is_cpu()) return generator;
  auto* const own = at::check_generator<at::CUDAGeneratorImpl>(generator);
  const std::lock_guard lock(own->mutex_);
  const auto state = own->philox_cuda_state(4);
  const std::uint64_t number = state.captured_ ? 0 : state.offset_.val;
  return at::make_generator<at::CPUGeneratorImpl>(own->current_seed() +
                                                  0x9E3779B97F4A7C15ULL * number);
}

c10::IValue on_host(const c10::IValue& value, bool is_written, HostViews& views) {
  if (value.isTensor()) return views.view(value.toTensor(), is_written);
  if (value.isTensorList()) {
    std::vector<at::Tensor> hosts;
    for (const at::Tensor& tensor : value.toTensorVector())
      hosts.push_back(views.view(tensor, is_written));
    return hosts;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> hosts;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      hosts.push_back(tensor ? std::optional(views.view(*tensor, is_written)) : tensor);
    return hosts;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(at::kCPU);
  if (value.isGenerator()) return host_generator(value.toGenerator());
  return value;
}

// The arguments with views of the host's in the place of tensors; where an operator was given no
// generator, with one in the state of the device's own.
Stack arguments_on_host(const c10::OperatorHandle& op, const Stack& inputs, HostViews& views) {
  const auto& arguments = op.schema().arguments();
  Stack hosts;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* const alias = arguments[i].alias_info();
    hosts.push_back(on_host(inputs[i], alias != nullptr && alias->isWrite(), views));
    if (arguments[i].name() == "generator" && hosts.back().isNone())
      hosts.back() = host_generator(at::globalContext().defaultGenerator(at::kCUDA));
  }
  return hosts;
}

// Runs the host's kernel: of a stack with the arguments, which then has the results.
void call_host(const c10::OperatorHandle& op, Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.callBoxed(&stack);
}

// visit(tensor) for each of a stack, also of those in lists; what it returns takes the tensor's
// place.
template <typename Visit>
void change_tensors(Stack& stack, const Visit& visit) {
  for (c10::IValue& value : stack) {
    if (value.isTensor()) {
      value = visit(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> changed;
      for (const at::Tensor& tensor : value.toTensorVector()) changed.push_back(visit(tensor));
      value = changed;
    }
  }
}

// Takes a result to the device: the tensor of an argument that was written, or a new one, whose
// memory earlier work on the stream may still use.
at::Tensor on_device(const at::Tensor& host, const HostViews& views, fake_cuda::Stream& stream,
                     std::vector<at::Tensor>& made) {
  if (!host.defined() || !host.is_cpu()) return host;
  if (at::Tensor original = views.original(host); original.defined()) return original;
  const auto device =
      at::empty_strided(host.sizes(), host.strides(), host.options().device(at::kCUDA));
  if (stream.capture)
    captured_memory.add(*stream.capture, device);
  else
    stream.wait(stream.last());
  if (device.nbytes() > 0) HostViews::view_of(device).copy_(host);
  made.push_back(device);
  return device;
}

// A node of the graph that runs the operator over the tensors themselves; `made`: those that it
// made.
std::function<void()> node_of(const c10::OperatorHandle& op, const Stack& inputs,
                              const std::vector<at::Tensor>& made) {
  HostViews views(false);
  const Stack arguments = arguments_on_host(op, inputs, views);
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : made) results.push_back(HostViews::view_of(tensor));
  return [op, arguments, results, known = views.all()] {
    Stack stack = arguments;
    call_host(op, stack);
    auto next = results.begin();
    change_tensors(stack, [&](const at::Tensor& tensor) {
      const bool is_new = tensor.defined() && !known.contains(tensor.unsafeGetTensorImpl());
      if (is_new && next != results.end()) (next++)->copy_(tensor);
      return tensor;
    });
  };
}

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  auto& machine = Machine::instance();
  auto& stream = machine.stream_of(c10::cuda::getCurrentCUDAStream().stream());
  const bool is_captured = stream.capture != nullptr;
  const Stack inputs = torch::jit::pop(*stack, op.schema().arguments().size());
  HostViews views(is_captured);
  Stack hosts = arguments_on_host(op, inputs, views);
  if (!is_captured)
    stream.wait(stream.last());  // as if it came after: the host knows nothing of it
  call_host(op, hosts);
  views.take_over_resized();
  if (is_captured) views.write_back(*stream.capture);
  std::vector<at::Tensor> made;
  change_tensors(hosts,
                 [&](const at::Tensor& host) { return on_device(host, views, stream, made); });
  const std::string& name = op.operator_name().name;
  if (is_captured) {
    (void)machine.submit(stream, name, node_of(op, inputs, made));
  } else {
    for (const at::Tensor& tensor : made) views.note(tensor, true);
    (void)machine.submit(
        stream, name, [] {}, views.accesses());
  }
  for (c10::IValue& result : hosts) stack->push_back(std::move(result));
}

// Copies that are one of memory stay CUDA's; what else happens between tensors of the device is the
// host's work.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const bool is_plain = to.dtype() == from.dtype() && to.is_non_overlapping_and_dense() &&
                        to.sizes() == from.sizes() && to.strides() == from.strides() &&
                        to.is_neg() == from.is_neg() && to.is_conj() == from.is_conj();
  if (!to.is_cuda() || !from.is_cuda() || is_plain) {
    if (to.is_cuda() && from.is_cuda() && to.nbytes() > 0) {
      const auto& stream =
          Machine::instance().stream_of(c10::cuda::getCurrentCUDAStream().stream());
      if (stream.capture && captured_memory.contains(*stream.capture, to))
        HostViews::view_of(to).copy_(HostViews::view_of(from));
    }
    return at::native::copy_(to, from, non_blocking);
  }
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  Stack stack = {to, from, non_blocking};
  run_on_host(op, c10::DispatchKeySet(), &stack);
  return to;
}

bool is_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns())
    if (const auto* const alias = result.alias_info(); alias != nullptr && !alias->isWrite())
      return true;
  return false;
}

bool goes_to_host(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  if (!name.starts_with("aten::") || kept().contains(name) || name.starts_with("aten::empty") ||
      is_view(op.schema()))
    return false;
  for (const char* const composite : composites)
    if (name == composite) return op.operator_name().overload_name.empty();
  return op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

class Registration {
 public:
  Registration()
      : library_(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__) {
    const IgnoreWarnings ignore;  // that kernels are replaced
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findSchema(name);
      if (!op || !goes_to_host(*op)) continue;
      const std::string full =
          name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
      library_.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
    }
    library_.impl("aten::copy_", TORCH_FN(copy));
    at::globalContext().setUserEnabledCuDNN(false);  // of which operators choose other ones
  }

 private:
  struct IgnoreWarnings : c10::WarningHandler {
    IgnoreWarnings() : guard_(this) {}
    void process(const c10::Warning&) override {}
    c10::WarningUtils::WarningHandlerGuard guard_;
  };
  torch::Library library_;
};

const Registration registration;

}  // namespace
