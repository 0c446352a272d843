#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/report/run_record.h"

namespace kolo {

// How a run was made, for people. `starts`: those of its run.json, in order; what isn't there is
// left out.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> facts_of(
    const RunRecord& run, const nlohmann::ordered_json& starts);

}  // namespace kolo
