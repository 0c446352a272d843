#pragma once

#include <filesystem>
#include <vector>

#include "kolo/report/run_record.h"

namespace kolo {

// A run from where it lies: a run's folder or its history.json (with config.yaml and model.txt
// where they are beside it), else TensorBoard event files: one file, or a folder of them, whoever
// wrote them, in single or several folders below (as PyTorch's add_scalars makes them).
//
// InputError, naming the path: nothing there, no run, or nothing in it can be read. What is damaged
// but still tells something is read as far as it goes, and said so in `warnings`.
[[nodiscard]] RunRecord read_run(const std::filesystem::path& path);

}  // namespace kolo
