#include "run/made_with.h"

#include <cctype>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/kernels/onednn.h"
#include "run/run_device.h"

namespace kolo {

namespace {

std::string with_dashes(const std::string& text) {
  std::string result;
  for (const char character : text) {
    const auto letter = static_cast<unsigned char>(character);
    if (std::isalnum(letter) != 0) {
      result += static_cast<char>(std::tolower(letter));
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (result.ends_with('-')) result.pop_back();
  return result;
}

std::string cpuinfo() {
  try {
    return read_text_file("/proc/cpuinfo");
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::string processor_name(const std::string& cpuinfo) {
  std::string name, family, model;
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto key = with_dashes(line.substr(0, colon)), value = line.substr(colon + 1);
    if (key == "model-name") name = value;
    if (key == "cpu-family") family = value;
    if (key == "model") model = value;
  }
  const auto result = with_dashes(fmt::format("{} {} {}", name, family, model));
  return result.empty() ? "processor" : result;
}

nlohmann::json made_with_here() {
  const auto libtorch = libtorch_facts();
  return {{"processor", processor_name(cpuinfo())},
          {"threads per rank", std::to_string(libtorch.threads)},
          {"kolo", KOLO_VERSION},
          {"LibTorch", libtorch.version},
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
