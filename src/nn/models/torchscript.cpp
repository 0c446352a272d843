#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/nn/models.h"
#include "nn/models/building_blocks.h"
#include "nn/script.h"

namespace kolo {

namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

// [N, values] as tensors of these shapes, whose values come one after another. Each has memory of
// its own, as a script may expect what it gets to be contiguous.
std::vector<torch::Tensor> split(const torch::Tensor& whole, const Shapes& shapes) {
  std::vector<torch::Tensor> parts;
  std::int64_t begin = 0;
  for (auto shape : shapes) {
    const auto values = checked_product(std::span<const std::int64_t>(shape));
    shape.insert(shape.begin(), whole.size(0));
    parts.push_back(whole.narrow(1, begin, values).contiguous().view(shape));
    begin += values;
  }
  return parts;
}

torch::Tensor join(const std::vector<torch::Tensor>& parts) {
  std::vector<torch::Tensor> flat;
  for (const auto& part : parts) flat.push_back(part.flatten(1));
  return torch::cat(flat, 1);
}

// Output of a script: a tensor, or a tuple or list of them. Error for anything else.
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

// The script's own tensors are the network's, under the same names; a tensor that the script holds
// twice has the first.
class TorchScriptNetwork final : public Network {
 public:
  // The parts of forward(tensor)'s input and output, where the script takes or gives several.
  explicit TorchScriptNetwork(Script script, Shapes input_shapes = {}, Shapes output_shapes = {})
      : input_shapes_(std::move(input_shapes)),
        output_shapes_(std::move(output_shapes)),
        script_(std::move(script)) {
    std::unordered_set<const c10::TensorImpl*> known;
    adopt(*this, script_.module(), known);
  }

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    const auto outputs =
        forward(input_shapes_.empty() ? std::vector{input} : split(input, input_shapes_));
    if (!output_shapes_.empty()) return join(outputs);
    if (outputs.size() == 1) return outputs.front();
    throw Error(fmt::format("{}: forward gives {} tensors, expected one tensor", script_.name(),
                            outputs.size()));
  }

  // Outputs in the script's order, as many as there are parts.
  [[nodiscard]] std::vector<torch::Tensor> forward(std::span<const torch::Tensor> inputs) override {
    return tensors_of(run(inputs), script_);
  }

  [[nodiscard]] std::vector<NetworkStage> stages() const override {
    throw InputError(
        "model torchscript has no stages: nothing is known of what is inside a script, so it can't "
        "be cut for a pipeline or computed again stage by stage");
  }

  void train(bool on) override {
    Network::train(on);
    set_training(script_.module(), on);
  }

  [[nodiscard]] const Script& script() const { return script_; }

 private:
  struct Buffer {
    torch::jit::Module owner;
    std::string name;
    torch::Tensor tensor;
  };

  void adopt(torch::nn::Module& to, const torch::jit::Module& from,
             std::unordered_set<const c10::TensorImpl*>& known) {
    const auto is_new = [&known](const torch::Tensor& tensor) {
      return tensor.defined() && known.insert(tensor.unsafeGetTensorImpl()).second;
    };
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
      adopt(*child, item.value, known);
      to.register_module(item.name, child);
    }
  }

  // A script may put new tensors where its buffers were (PyTorch's batch norm once counted batches
  // like that). Their values go to the tensors that everybody knows, and those back to the script;
  // under c10::InferenceMode with the old values, since others may share their memory.
  c10::IValue run(std::span<const torch::Tensor> inputs) {
    auto output = script_.forward(inputs);
    const torch::NoGradGuard no_gradient;
    for (Buffer& buffer : buffers_) {
      const torch::Tensor present = buffer.owner.attr(buffer.name).toTensor();
      if (present.is_same(buffer.tensor)) continue;
      if (!c10::InferenceMode::is_enabled()) buffer.tensor.copy_(present);
      buffer.owner.setattr(buffer.name, buffer.tensor);
    }
    return output;
  }

  Shapes input_shapes_, output_shapes_;
  Script script_;
  std::vector<Buffer> buffers_;
};

void require_parameters(const torch::nn::Module& network, const Script& script) {
  const auto parameters = network.parameters();
  if (std::ranges::any_of(parameters, &torch::Tensor::requires_grad)) return;
  throw InputError(
      fmt::format("{} has {} parameters and none to train; a module from torch.jit.freeze or with "
                  "requires_grad off can't be trained, script the original",
                  script.name(), parameters.size()));
}

constexpr std::int64_t samples_tried = 2;  // so that a batch can't be taken for one

Shapes of_batch(Shapes shapes) {
  for (auto& shape : shapes) shape.insert(shape.begin(), samples_tried);
  return shapes;
}

// Tries a batch of zeros; the mode is then that of evaluation. `remark` says what is expected.
void require_shapes(TensorsNetwork& network, const Script& script, const TensorsShapes& shapes,
                    std::string_view remark) {
  const torch::NoGradGuard no_gradient;
  network.eval();
  const auto inputs = of_batch(shapes.inputs), expected = of_batch(shapes.outputs);
  std::vector<torch::Tensor> zeros;
  for (const auto& shape : inputs) zeros.push_back(torch::zeros(shape));
  Shapes found;
  try {
    for (const auto& output : network.forward(zeros)) found.push_back(output.sizes().vec());
  } catch (const Error& error) {
    throw InputError(error.what());
  }
  if (found == expected) return;
  throw InputError(fmt::format("{} gives {} for a batch {}, expected {}{}", script.name(),
                               fmt::join(found, ", "), fmt::join(inputs, ", "),
                               fmt::join(expected, ", "), remark));
}

// Leaves the network in training mode.
void require_trainable(TorchScriptNetwork& network, const std::optional<TensorsShapes>& shapes,
                       std::string_view remark) {
  require_parameters(network, network.script());
  if (shapes) require_shapes(network, network.script(), *shapes, remark);
  network.train(true);
}

// Shapes that forward is to take and to give.
TensorsShapes tensors_shapes(const ModelOptions& options) {
  TensorsShapes shapes{options.input_shapes, options.output_shapes};
  if (shapes.inputs.empty()) shapes.inputs = {options.input_shape};
  if (!shapes.outputs.empty()) return shapes;
  const bool has_classes = options.output_shape.empty();
  shapes.outputs = {has_classes ? std::vector{options.classes} : options.output_shape};
  return shapes;
}

using TensorCopies = std::unordered_map<const c10::TensorImpl*, torch::Tensor>;

void copy_tensors(const torch::jit::Module& from, torch::jit::Module to, TensorCopies& copies) {
  const auto copy_tensor = [&](const auto& item) {
    torch::Tensor& own = copies[item.value.unsafeGetTensorImpl()];
    if (!own.defined()) own = item.value.clone().set_requires_grad(item.value.requires_grad());
    to.setattr(item.name, own);
  };
  for (const auto& item : from.named_parameters(/*recurse=*/false)) copy_tensor(item);
  for (const auto& item : from.named_buffers(/*recurse=*/false)) copy_tensor(item);
  for (const auto& item : from.named_children())
    copy_tensors(item.value, to.attr(item.name).toModule(), copies);
}

// A copy of a script and its tensors. LibTorch's own takes tensors that share a storage for one,
// and forgets what requires a gradient.
torch::jit::Module copy_of(const torch::jit::Module& script) {
  const torch::NoGradGuard no_gradient;
  torch::jit::Module copy = script.deepcopy();
  TensorCopies copies;
  copy_tensors(script, copy, copies);
  return copy;
}

}  // namespace

std::shared_ptr<Network> make_torchscript_network(const std::filesystem::path& path,
                                                  const ModelOptions& options) {
  const auto network = std::make_shared<TorchScriptNetwork>(
      Script(path, "torchscript"), options.input_shapes, options.output_shapes);
  const bool has_classes = options.output_shape.empty();
  require_trainable(*network, tensors_shapes(options), has_classes ? ", one output a class" : "");
  return network;
}

std::shared_ptr<TensorsNetwork> make_torchscript_tensors_network(
    const std::filesystem::path& path, const std::optional<TensorsShapes>& shapes) {
  const auto network = std::make_shared<TorchScriptNetwork>(Script(path, "torchscript"));
  require_trainable(*network, shapes, "");
  return network;
}

void save_torchscript(const torch::nn::Module& network, const std::filesystem::path& path) {
  const auto* scripted = dynamic_cast<const TorchScriptNetwork*>(&network);
  if (scripted == nullptr) {
    throw Error(
        "torchscript: only a network that was made from a TorchScript file can be saved as one");
  }
  // The copy also has storage of its own for each tensor: LibTorch writes whole storages, and
  // parameters may be views into a large one.
  torch::jit::Module copy = copy_of(scripted->script().module());
  set_training(copy, false);
  std::ostringstream stream;
  copy.save(stream);
  write_file_atomically(path, stream.str());
}

}  // namespace kolo

namespace kolo::networks {

struct TorchScript {
  std::string file;

  void check(const RefuseKey& refuse) const {
    if (file.empty()) {
      refuse("file", "model torchscript needs the file that torch.jit.script(...).save() wrote");
    }
  }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return make_torchscript_network(file, shapes);
  }
};

template <typename Field>
void visit(Field& field, TorchScript& model) {
  field("file", model.file, PathText{});
}

// Shapes, where they are known.
std::optional<TensorsShapes> known_shapes(const ModelOptions& shapes) {
  if (shapes.input_shape.empty() || shapes.output_shape.empty()) return std::nullopt;
  return TensorsShapes{{shapes.input_shape}, {shapes.output_shape}};
}

ModelEntry torchscript() {
  auto entry = entry_of<TorchScript>("torchscript", "a scripted PyTorch network from a file");
  entry.output = ModelOutput::either;
  entry.is_script = true;
  entry.make_tensors = [](const OwnSettings& own, const ModelOptions& shapes) {
    return make_torchscript_tensors_network(own.as<TorchScript>().file, known_shapes(shapes));
  };
  return entry;
}

}  // namespace kolo::networks
