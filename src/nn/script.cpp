#include "nn/script.h"

#include <functional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "nn/tensor_text.h"

namespace kolo {

namespace {

using ScriptModule = torch::jit::Module;

// LibTorch's messages go on with stack traces; what the interpreter says comes after one.
std::string reason_of(const std::exception& error) {
  std::string_view text = error.what();
  if (!text.starts_with("The following operation failed in the TorchScript interpreter"))
    return std::string(text.substr(0, text.find('\n')));
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

ScriptModule load_script(const std::filesystem::path& path, const std::string& subject) {
  try {
    (void)open_regular_file(path);
  } catch (const Error& error) {
    throw InputError(fmt::format("{}: {}", subject, error.what()));
  }
  try {
    return torch::jit::load(path.string(), torch::kCPU);
  } catch (const std::exception& error) {
    throw InputError(
        fmt::format("{}: {} is no TorchScript file ({}); write one in Python with "
                    "torch.jit.script(model).save(path)",
                    subject, path.string(), reason_of(error)));
  }
}

bool is_tensor(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) return is_tensor(*type.containedTypes().at(0));
  return type.kind() == c10::TypeKind::TensorType;
}

}  // namespace

Script::Script(std::filesystem::path path, std::string subject)
    : path_(std::move(path)), subject_(std::move(subject)), module_(load_script(path_, subject_)) {
  count_arguments();
}

std::string Script::name() const {
  return fmt::format("{}: {}", subject_, path_.string());
}

void Script::count_arguments() {
  const auto forward = module_.find_method("forward");
  if (!forward) {
    throw InputError(fmt::format("{}: the module in {} has no forward", subject_, path_.string()));
  }
  const auto& arguments = forward->function().getSchema().arguments();
  std::size_t index = 1;  // after the module itself
  for (; index < arguments.size() && is_tensor(*arguments[index].type()); ++index) {
    ++most_;
    if (!arguments[index].default_value()) least_ = most_;
  }
  for (; index < arguments.size(); ++index) {
    const auto& argument = arguments[index];
    if (argument.default_value()) continue;
    throw InputError(
        fmt::format("{}: forward takes {} of type {}, expected tensors, and defaults for all else",
                    name(), argument.name(), argument.type()->str()));
  }
}

void Script::require_number(std::span<const torch::Tensor> inputs) const {
  if (inputs.size() >= least_ && inputs.size() <= most_) return;
  throw InputError(
      fmt::format("{}: forward takes {} tensors, but got {}: {}", name(),
                  least_ == most_ ? std::to_string(most_) : fmt::format("{} to {}", least_, most_),
                  inputs.size(), shapes_of(inputs)));
}

c10::IValue Script::forward(std::span<const torch::Tensor> inputs) {
  require_number(inputs);
  try {
    return module_.forward(std::vector<c10::IValue>(inputs.begin(), inputs.end()));
  } catch (const std::exception& error) {
    throw Error(
        fmt::format("{}: does not work on {}: {}", name(), shapes_of(inputs), reason_of(error)));
  }
}

void set_training(const ScriptModule& module, bool on) {
  for (ScriptModule each : module.modules()) {
    if (each.hasattr("training")) each.setattr("training", on);
  }
}

AdoptedScript::AdoptedScript(torch::nn::Module& module, Script script)
    : script_(std::move(script)) {
  std::unordered_set<const c10::TensorImpl*> known;
  const auto is_new = [&known](const torch::Tensor& tensor) {
    return tensor.defined() && known.insert(tensor.unsafeGetTensorImpl()).second;
  };
  const std::function<void(torch::nn::Module&, const ScriptModule&)> adopt =
      [&](torch::nn::Module& to, const ScriptModule& from) {
        for (const auto& item : from.named_parameters(/*recurse=*/false)) {
          if (is_new(item.value))
            to.register_parameter(item.name, item.value, item.value.requires_grad());
        }
        for (const auto& item : from.named_buffers(/*recurse=*/false)) {
          if (!is_new(item.value)) continue;
          to.register_buffer(item.name, item.value);
          buffers_.push_back({from, item.name, item.value});
        }
        for (const auto& item : from.named_children()) {
          const auto child = std::make_shared<torch::nn::Module>();
          adopt(*child, item.value);
          to.register_module(item.name, child);
        }
      };
  adopt(module, script_.module());
}

c10::IValue AdoptedScript::forward(std::span<const torch::Tensor> inputs) {
  auto output = script_.forward(inputs);
  keep_buffers();
  return output;
}

// A script may put new tensors where its buffers were (PyTorch's batch norm once counted batches
// like that). Their values go to the tensors that everybody knows, and those back to the script.
void AdoptedScript::keep_buffers() {
  const torch::NoGradGuard no_gradient;
  for (Buffer& buffer : buffers_) {
    const torch::Tensor present = buffer.owner.attr(buffer.name).toTensor();
    if (present.is_same(buffer.tensor)) continue;
    if (!c10::InferenceMode::is_enabled()) buffer.tensor.copy_(present);
    buffer.owner.setattr(buffer.name, buffer.tensor);
  }
}

std::vector<torch::Tensor> tensors_of(const c10::IValue& output, const Script& script) {
  const auto refuse = [&] {
    throw Error(fmt::format("{}: forward gives a {}, expected a tensor, or a tuple or list of them",
                            script.name(), output.type()->str()));
  };
  if (output.isTensor()) return {output.toTensor()};
  if (output.isTensorList()) return output.toTensorVector();
  if (!output.isTuple()) refuse();
  std::vector<torch::Tensor> tensors;
  for (const c10::IValue& element : output.toTupleRef().elements()) {
    if (!element.isTensor()) refuse();
    tensors.push_back(element.toTensor());
  }
  return tensors;
}

}  // namespace kolo
