#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include <torch/nn/module.h>
#include <torch/script.h>

// TorchScript modules from files, as networks and losses have them.
namespace kolo {

// Sets the mode of a module and those in it, where they have one: frozen ones haven't.
void set_training(const torch::jit::Module& module, bool on);

// A module from a file, with messages about what is wrong with it. A value; copies share the
// tensors.
class Script {
 public:
  // Loads to the CPU. `subject` begins all messages. InputError when the file is none of
  // TorchScript or has no forward that takes tensors.
  Script(std::filesystem::path path, std::string subject);

  // InputError for another number of tensors than forward takes, Error for what it throws; both
  // name the file and what was given.
  [[nodiscard]] c10::IValue forward(std::span<const torch::Tensor> inputs);

  [[nodiscard]] const torch::jit::Module& module() const { return module_; }
  // "torchscript: model.pt"
  [[nodiscard]] std::string name() const;

 private:
  void count_arguments();
  void require_number(std::span<const torch::Tensor> inputs) const;

  std::filesystem::path path_;
  std::string subject_;
  torch::jit::Module module_;
  std::size_t least_ = 0, most_ = 0;  // tensors that forward takes
};

}  // namespace kolo
