#include "run/made_with.h"

#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include "kolo/nn/convolution.h"
#include "run/kernel_cache.h"

namespace kolo {

nlohmann::json made_with_here() {
  return {{"processor", processor_name()},
          {"threads per rank", std::to_string(at::get_num_threads())},
          {"kolo", KOLO_VERSION},
          {"LibTorch", TORCH_VERSION},
          {"oneDNN", onednn_description()}};
}

std::string describe_other_making(const nlohmann::json& before, const nlohmann::json& now) {
  if (!before.is_object()) return {};
  std::vector<std::string> differences;
  for (const auto& [name, value] : now.items()) {
    const auto found = before.find(name);
    if (found == before.end() || *found == value || !found->is_string()) continue;
    differences.push_back(fmt::format("{} {} instead of {}", name, value.get<std::string>(),
                                      found->get<std::string>()));
  }
  return fmt::format("{}", fmt::join(differences, ", "));
}

}  // namespace kolo
