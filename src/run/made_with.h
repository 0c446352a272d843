#pragma once

#include <string>

#include <nlohmann/json.hpp>

// What the bits of a run depend on besides its configuration, data and number of ranks.
namespace kolo {

// "amd-epyc-9654-25-17": name, family and model, as /proc/cpuinfo has them; "processor" where it
// has none.
[[nodiscard]] std::string processor_name(const std::string& cpuinfo);

// Of this process: the processor, the threads of a rank, and the versions of what computes.
// Each by the name that people know it by.
[[nodiscard]] nlohmann::json made_with_here();

// "threads per rank 1 instead of 2, LibTorch 2.6.0 instead of 1.13.0"; empty where nothing differs
// or nothing is known of before (checkpoints of earlier versions).
[[nodiscard]] std::string describe_other_making(const nlohmann::json& before,
                                                const nlohmann::json& now);

}  // namespace kolo
