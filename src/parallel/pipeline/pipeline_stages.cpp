#include "kolo/parallel/pipeline_stages.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

// Stands where a network has a module whose stages are only some of its children.
struct EmptyModule : torch::nn::Module {};

// Of a stage: its tensors with their names in the network.
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
void place(torch::nn::Module& root, const NetworkStage::PartOfNetwork& part) {
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
      place(*root, part);
    }
  }
  if (!is_training) root->eval();
  return root;
}

}  // namespace kolo
