#pragma once

#include <filesystem>

#include "kolo/report/run_record.h"

namespace kolo {

// A run of kolo from its history.json, and from config.yaml and model.txt where they are beside it:
// without them settings and parameters are empty. `name` and `source` are left to the caller.
// InputError, naming the file: the history can't be read.
[[nodiscard]] RunRecord read_history(const std::filesystem::path& path);

}  // namespace kolo
