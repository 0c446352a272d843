#include "nn/script.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "nn/tensor_text.h"

namespace kolo {

namespace {

using ScriptModule = torch::jit::Module;

// Leaves out stack traces. The interpreter's own message comes after one of the script, and in
// newer versions before one of LibTorch.
std::string reason_of(const std::exception& error) {
  std::string_view text = error.what();
  if (text.starts_with("The following operation failed in the TorchScript interpreter")) {
    if (const auto own = text.rfind("\nRuntimeError: "); own != std::string_view::npos) {
      text = text.substr(own + 1);
    } else {
      text = text.substr(0, text.find_last_not_of('\n') + 1);
      text = text.substr(text.rfind('\n') + 1);
    }
  }
  return first_line_of(text);
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

}  // namespace kolo
