#include "kolo/parallel/pipeline_state.h"

#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

using NamedTensors = std::span<const ParameterArena::NamedTensor>;

CallOptions call_for(const OwnedTensor& tensor) {
  return {.name = "state " + tensor.name};
}

torch::Tensor on_host(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU).contiguous();
}

torch::Tensor room_for(const OwnedTensor& tensor) {
  return torch::empty(tensor.sizes, torch::TensorOptions(tensor.type));
}

// As one line of text for each: "type length length ... name".
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

std::vector<ParameterArena::NamedTensor> named_tensors_of(const torch::nn::Module& module) {
  std::vector<ParameterArena::NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

}  // namespace kolo
