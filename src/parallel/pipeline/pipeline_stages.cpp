#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/pipeline_stages.h"
#include "kolo/parallel/pipeline_state.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

// Stands for a module of the network of which only some children are here.
struct EmptyModule : torch::nn::Module {};

// Calls each() for a stage's tensors with their names in the network.
template <typename Each>
void for_each_tensor(const NetworkStage& stage, const Each& each) {
  for (const auto& part : stage.modules) {
    const auto prefix = part.name.empty() ? std::string() : part.name + ".";
    for (const auto& item : part.module->named_parameters())
      each(prefix + item.key(), item.value());
    for (const auto& item : part.module->named_buffers()) each(prefix + item.key(), item.value());
  }
}

std::set<const torch::TensorImpl*> tensors_of(std::span<const NetworkStage> stages) {
  std::set<const torch::TensorImpl*> tensors;
  for (const auto& stage : stages) {
    for_each_tensor(stage, [&](const std::string&, const torch::Tensor& tensor) {
      tensors.insert(tensor.unsafeGetTensorImpl());
    });
  }
  return tensors;
}

std::shared_ptr<torch::nn::Module> child_of(const torch::nn::Module& module,
                                            const std::string& name) {
  const auto children = module.named_children();
  const auto* const child = children.find(name);
  return child == nullptr ? nullptr : *child;
}

// Puts a module where its name leads from `root`.
void put_in(torch::nn::Module& root, const NetworkStage::NamedModule& part) {
  auto* parent = &root;
  std::string rest = part.name;
  for (auto dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
    const auto name = rest.substr(0, dot);
    auto child = child_of(*parent, name);
    if (!child) child = parent->register_module(name, std::make_shared<EmptyModule>());
    parent = child.get();
    rest.erase(0, dot + 1);
  }
  const auto known = child_of(*parent, rest);
  if (!known) {
    parent->register_module(rest, part.module);
  } else if (known != part.module) {
    throw InputError(
        fmt::format("parallel: pipeline: two stages have different modules under the name \"{}\", "
                    "or one of them is inside the other; give each module to stages whole",
                    part.name));
  }
}

}  // namespace

std::vector<NetworkStage> stages_of(const torch::nn::Sequential& network) {
  std::vector<NetworkStage> stages;
  const auto names = network->named_children().keys();
  for (auto layer = network->begin(); layer != network->end(); ++layer) {
    const auto& name = names[static_cast<std::size_t>(layer - network->begin())];
    stages.push_back({name, {{name, layer->ptr()}}, [layer = *layer](StagePayload payload) mutable {
                        return StagePayload{layer.forward(std::move(payload.front()))};
                      }});
  }
  return stages;
}

void require_whole_chain(const torch::nn::Module& network, std::span<const NetworkStage> stages) {
  constexpr std::size_t most_named = 5;
  const auto known = tensors_of(stages);
  std::vector<std::string> missing;
  const auto look_at = [&](const auto& items) {
    for (const auto& item : items) {
      if (!known.contains(item.value().unsafeGetTensorImpl())) missing.push_back(item.key());
    }
  };
  look_at(network.named_parameters());
  look_at(network.named_buffers());
  if (missing.empty()) return;
  const auto count = missing.size();
  missing.resize(std::min(count, most_named));
  throw InputError(fmt::format(
      "parallel: pipeline: {} of the network's parameters and buffers are in none of its stages, "
      "so no rank would have them: {}{}; name the modules that have them in a stage",
      count, fmt::join(missing, ", "), count > most_named ? ", ..." : ""));
}

void require_parts(std::span<const NetworkStage> stages, std::span<const std::size_t> bounds) {
  const bool are_parts =
      bounds.size() >= 2 && bounds.front() == 0 && bounds.back() == stages.size() &&
      std::ranges::adjacent_find(bounds, std::ranges::greater_equal{}) == bounds.end();
  if (!are_parts) {
    throw InputError(
        fmt::format("parallel: pipeline: the bounds [{}] don't cut {} stages into parts; they rise "
                    "from 0 to {}",
                    fmt::join(bounds, ", "), stages.size(), stages.size()));
  }
  std::map<const torch::TensorImpl*, std::pair<std::size_t, std::string>> known;
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
    for (const auto& stage : stages.subspan(bounds[part], bounds[part + 1] - bounds[part])) {
      for_each_tensor(stage, [&](const std::string& name, const torch::Tensor& tensor) {
        const auto [other, is_new] = known.try_emplace(tensor.unsafeGetTensorImpl(), part, name);
        if (is_new || other->second.first == part) return;
        throw InputError(fmt::format(
            "parallel: pipeline: {} (part {}) and {} (part {}) are one tensor, of which each part "
            "would train a copy; cut the chain so that one part has both",
            other->second.second, other->second.first, name, part));
      });
    }
  }
}

std::shared_ptr<torch::nn::Module> module_of(std::span<const NetworkStage> stages) {
  auto root = std::make_shared<EmptyModule>();
  bool is_training = true;
  for (const auto& stage : stages) {
    for (const auto& part : stage.modules) {
      if (part.name.empty()) return part.module;
      is_training = is_training && part.module->is_training();
      put_in(*root, part);
    }
  }
  if (!is_training) root->eval();
  return root;
}

namespace {

using NamedTensors = std::span<const NamedTensor>;

CallOptions call_for(const OwnedTensor& tensor) {
  return {.name = "state " + tensor.name};
}

torch::Tensor on_host(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU).contiguous();
}

torch::Tensor room_for(const OwnedTensor& tensor) {
  return torch::empty(tensor.sizes, torch::TensorOptions(tensor.type));
}

// Describes each tensor by a line of text: "type length length ... name".
std::string describe_tensors(NamedTensors tensors) {
  std::string text;
  for (const auto& each : tensors) {
    text += fmt::format("{} {} {}{}{}\n", static_cast<int>(data_type_of(each.tensor.scalar_type())),
                        each.tensor.dim(), fmt::join(each.tensor.sizes(), " "),
                        each.tensor.dim() > 0 ? " " : "", each.name);
  }
  return text;
}

void read_descriptions(const std::string& text, int rank, std::vector<OwnedTensor>& into) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int type = 0;
    std::size_t dimensions = 0;
    words >> type >> dimensions;
    OwnedTensor tensor{.rank = rank, .type = scalar_type_of(static_cast<DataType>(type))};
    tensor.sizes.resize(dimensions);
    for (auto& size : tensor.sizes) words >> size;
    words.get();  // the blank before the name
    std::getline(words, tensor.name);
    into.push_back(std::move(tensor));
  }
}

}  // namespace

std::vector<OwnedTensor> owned_tensors(const Communicator& pipe, NamedTensors mine) {
  const auto texts = all_gather_bytes(pipe, describe_tensors(mine), {.name = "tensors of parts"});
  std::vector<OwnedTensor> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    read_descriptions(texts[rank], narrow<int>(rank), all);
  std::map<std::string, int> owners;
  for (const auto& tensor : all) {
    const auto [known, is_new] = owners.try_emplace(tensor.name, tensor.rank);
    if (is_new) continue;
    throw Error(
        fmt::format("parallel: pipeline: ranks {} and {} both have a tensor {}, so the whole "
                    "network's is not known",
                    known->second, tensor.rank, tensor.name));
  }
  return all;
}

void collect_tensors(const Communicator& pipe, NamedTensors mine,
                     const std::function<void(const OwnedTensor&, torch::Tensor)>& take) {
  auto next = mine.begin();
  for (const auto& tensor : owned_tensors(pipe, mine)) {
    const bool is_mine = tensor.rank == pipe.rank();
    if (is_mine) {
      const auto value = on_host((next++)->tensor);
      if (pipe.rank() == 0)
        take(tensor, value.clone());
      else
        pipe.send(buffer_of(value), 0, 0, call_for(tensor));
    } else if (pipe.rank() == 0) {
      auto value = room_for(tensor);
      pipe.receive(buffer_of(value), tensor.rank, 0, call_for(tensor));
      take(tensor, std::move(value));
    }
  }
}

void hand_out_tensors(const Communicator& pipe, NamedTensors mine,
                      const std::function<torch::Tensor(const OwnedTensor&)>& give) {
  const torch::NoGradGuard no_gradient;
  auto next = mine.begin();
  for (const auto& tensor : owned_tensors(pipe, mine)) {
    const bool is_mine = tensor.rank == pipe.rank();
    auto value = torch::Tensor();
    if (pipe.rank() == 0) {
      value = on_host(give(tensor).to(tensor.type));
      if (value.sizes() != tensor.sizes) {
        throw Error(
            fmt::format("parallel: pipeline: {} is [{}], but rank {} of the pipeline has "
                        "[{}]",
                        tensor.name, fmt::join(value.sizes(), ", "), tensor.rank,
                        fmt::join(tensor.sizes, ", ")));
      }
      if (!is_mine) pipe.send(buffer_of(value), tensor.rank, 0, call_for(tensor));
    } else if (is_mine) {
      value = room_for(tensor);
      pipe.receive(buffer_of(value), 0, 0, call_for(tensor));
    }
    if (is_mine) torch::Tensor((next++)->tensor.detach()).copy_(value);
  }
}

std::vector<NamedTensor> named_tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

}  // namespace kolo
