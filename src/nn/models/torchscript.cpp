#include "kolo/nn/models.h"

#include <functional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/script.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "nn/models/model_parts.h"

namespace kolo {

namespace {

using ScriptModule = torch::jit::Module;

// LibTorch's messages go on with stack traces.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

struct ScriptBuffer {
  ScriptModule owner;
  std::string name;
  torch::Tensor tensor;
};

class TorchScriptNetwork final : public Network {
 public:
  explicit TorchScriptNetwork(ScriptModule script) : script_(std::move(script)) {
    std::unordered_set<const c10::TensorImpl*> known;
    adopt(*this, script_, known);
  }

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    const torch::jit::IValue output = script_.forward({input});
    keep_buffers();
    if (!output.isTensor()) {
      throw Error(fmt::format("torchscript: forward gives a {}, expected one tensor",
                              output.type()->str()));
    }
    return output.toTensor();
  }

  [[nodiscard]] std::vector<NetworkStage> stages() const override {
    throw InputError(
        "model torchscript has no stages: nothing is known of what is inside a script, so it can't "
        "be cut for a pipeline or computed again stage by stage");
  }

  void train(bool on) override {
    Network::train(on);
    script_.train(on);
  }

  [[nodiscard]] const ScriptModule& script() const { return script_; }

 private:
  using KnownTensors = std::unordered_set<const c10::TensorImpl*>;

  // Registers the very tensors of a script's module, and of those in it, under the same names. What
  // the script holds a second time is left out.
  void adopt(torch::nn::Module& module, const ScriptModule& script, KnownTensors& known) {
    const auto is_new = [&known](const torch::Tensor& tensor) {
      return tensor.defined() && known.insert(tensor.unsafeGetTensorImpl()).second;
    };
    for (const auto& item : script.named_parameters(/*recurse=*/false)) {
      if (is_new(item.value))
        module.register_parameter(item.name, item.value, item.value.requires_grad());
    }
    for (const auto& item : script.named_buffers(/*recurse=*/false)) {
      if (!is_new(item.value)) continue;
      module.register_buffer(item.name, item.value);
      buffers_.push_back({script, item.name, item.value});
    }
    for (const auto& item : script.named_children()) {
      const auto child = std::make_shared<torch::nn::Module>();
      adopt(*child, item.value, known);
      module.register_module(item.name, child);
    }
  }

  // A script may put new tensors where its buffers were (PyTorch's batch norm once counted batches
  // like that). Their values go to the tensors that everybody knows, and those back to the script.
  void keep_buffers() {
    const torch::NoGradGuard no_gradient;
    for (ScriptBuffer& buffer : buffers_) {
      const torch::Tensor present = buffer.owner.attr(buffer.name).toTensor();
      if (present.is_same(buffer.tensor)) continue;
      buffer.tensor.copy_(present);
      buffer.owner.setattr(buffer.name, buffer.tensor);
    }
  }

  ScriptModule script_;
  std::vector<ScriptBuffer> buffers_;
};

// A copy of a script and its tensors. LibTorch's own takes tensors that share a storage for one,
// and forgets what requires a gradient.
ScriptModule copy_of(const ScriptModule& script) {
  const torch::NoGradGuard no_gradient;
  ScriptModule copy = script.deepcopy();
  std::unordered_map<const c10::TensorImpl*, torch::Tensor> copies;
  const std::function<void(const ScriptModule&, ScriptModule)> copy_tensors =
      [&](const ScriptModule& from, ScriptModule to) {
        const auto copy_tensor = [&](const std::string& name, const torch::Tensor& tensor) {
          torch::Tensor& own = copies[tensor.unsafeGetTensorImpl()];
          if (!own.defined()) own = tensor.clone().set_requires_grad(tensor.requires_grad());
          to.setattr(name, own);
        };
        for (const auto& item : from.named_parameters(/*recurse=*/false))
          copy_tensor(item.name, item.value);
        for (const auto& item : from.named_buffers(/*recurse=*/false))
          copy_tensor(item.name, item.value);
        for (const auto& item : from.named_children())
          copy_tensors(item.value, to.attr(item.name).toModule());
      };
  copy_tensors(script, copy);
  return copy;
}

ScriptModule load_script(const std::filesystem::path& path) {
  try {
    (void)open_regular_file(path);
  } catch (const Error& error) {
    throw InputError(fmt::format("torchscript: {}", error.what()));
  }
  try {
    return torch::jit::load(path.string(), torch::kCPU);
  } catch (const std::exception& error) {
    throw InputError(
        fmt::format("torchscript: {} is no TorchScript file ({}); write one in Python with "
                    "torch.jit.script(model).save(path)",
                    path.string(), first_line(error)));
  }
}

void require_parameters(const TorchScriptNetwork& network, const std::filesystem::path& path) {
  const auto parameters = network.parameters();
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.requires_grad()) return;
  }
  throw InputError(fmt::format(
      "torchscript: {} has {} parameters and none to train; a module from torch.jit.freeze or with "
      "requires_grad off can't be trained, script the original",
      path.string(), parameters.size()));
}

void require_classifier(TorchScriptNetwork& network, const std::filesystem::path& path,
                        const ModelOptions& options) {
  const torch::NoGradGuard no_gradient;
  std::vector<std::int64_t> shape = {2};  // of two, so that a batch can't be taken for one
  shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
  network.eval();
  torch::Tensor output;
  try {
    output = network.forward(torch::zeros(shape));
  } catch (const std::exception& error) {
    throw InputError(fmt::format("torchscript: {} does not work on a batch [{}]: {}", path.string(),
                                 fmt::join(shape, ", "), first_line(error)));
  }
  if (output.dim() != 2 || output.size(0) != 2 || output.size(1) != options.classes) {
    throw InputError(fmt::format(
        "torchscript: {} gives [{}] for a batch [{}], expected [2, {}], one output a class",
        path.string(), fmt::join(output.sizes().vec(), ", "), fmt::join(shape, ", "),
        options.classes));
  }
}

}  // namespace

std::shared_ptr<Network> make_torchscript_network(const std::filesystem::path& path,
                                                  const ModelOptions& options) {
  auto script = load_script(path);
  if (!script.find_method("forward")) {
    throw InputError(fmt::format("torchscript: the module in {} has no forward", path.string()));
  }
  const auto network = std::make_shared<TorchScriptNetwork>(std::move(script));
  require_parameters(*network, path);
  require_classifier(*network, path, options);
  network->train(true);
  return network;
}

void save_torchscript(const Network& network, const std::filesystem::path& path) {
  const auto* scripted = dynamic_cast<const TorchScriptNetwork*>(&network);
  if (scripted == nullptr) {
    throw Error(
        "torchscript: only a network that was made from a TorchScript file can be saved as one");
  }
  // The copy also has storage of its own for each tensor: LibTorch writes whole storages, and
  // parameters may be views into a large one.
  ScriptModule copy = copy_of(scripted->script());
  copy.eval();
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

ModelEntry torchscript() {
  auto entry = entry_of<TorchScript>("torchscript", "a scripted PyTorch classifier from a file");
  entry.keeps_batch_norms = true;
  return entry;
}

}  // namespace kolo::networks
