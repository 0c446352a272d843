#include "config/retired_keys.h"

#include <string_view>
#include <utility>

#include "settings/section.h"

namespace kolo {

namespace {

constexpr std::string_view on_copies =
    "nodes keep no copies of the state any more; set checkpoint.every_steps, whose checkpoints are "
    "written in the background";

constexpr std::pair<std::string_view, std::string_view> retired_keys[] = {
    {"checkpoint.local_folder", on_copies},
    {"checkpoint.local_every_steps", on_copies},
    {"reference",
     "published results stand in docs/results.md; kolo sweep CONFIG seed=1,2,3 --target NUMBER "
     "holds one against trainings"},
    {"training.kernels",
     "kolo chooses the kernels of convolutions by rules and tries none, so there is nothing to "
     "choose: leave the key out"},
    {"parallel.chunks", "each rank of a pipeline has one part of the network: leave the key out"},
};

}  // namespace

void settle_retired_keys(ConfigValue& root, bool is_record) {
  for (const auto& [name, advice] : retired_keys) {
    const auto dot = name.find('.');
    const auto key = name.substr(dot + 1);  // npos + 1: the whole name
    auto* const section = dot == name.npos ? &root : root.find(name.substr(0, dot));
    const auto* const value = section == nullptr ? nullptr : section->find(key);
    if (value == nullptr) continue;
    if (!is_record || is_from_command_line(*value)) refuse(*value, name, advice);
    std::erase_if(section->entries, [&](const ConfigEntry& entry) { return entry.key == key; });
  }
}

}  // namespace kolo
