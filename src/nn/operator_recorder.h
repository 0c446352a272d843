#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <torch/nn/module.h>

#include "kolo/nn/network.h"

namespace kolo {

// Writes down the operators that this thread calls while it lives, but not those that operators
// call. Those that take no tensor, or only look at parameters, are left out. One at a time on a
// thread.
class OperatorRecorder {
 public:
  // Operators are named after the parameters and buffers of the module that they take.
  explicit OperatorRecorder(const torch::nn::Module& module);
  OperatorRecorder(const OperatorRecorder&) = delete;
  OperatorRecorder& operator=(const OperatorRecorder&) = delete;
  ~OperatorRecorder();

  [[nodiscard]] std::vector<LayerSummary> take_layers() { return std::move(layers_); }

 private:
  struct KnownTensor {
    std::string module;
    std::int64_t parameters = 0;  // not yet counted
  };

  static std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function);
  static void operator_ends(const at::RecordFunction& function, at::ObserverContext* context);
  void add(const at::RecordFunction& function, const std::vector<c10::IValue>& inputs);
  void remember(const std::string& name, const torch::Tensor& tensor, std::int64_t parameters);

  std::unordered_map<const void*, KnownTensor> known_;  // by the address of the values
  std::vector<LayerSummary> layers_;
  std::int64_t depth_ = 0;
  at::CallbackHandle handle_ = 0;
};

}  // namespace kolo
