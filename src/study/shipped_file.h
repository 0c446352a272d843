#pragma once

#include <filesystem>

namespace kolo {

// Where a file that kolo comes with ("submit/slurm/train.sh") is beside an installed program.
[[nodiscard]] std::filesystem::path installed_file(const std::filesystem::path& file);

// There, or in the sources that the program was built from; empty where it is in neither.
[[nodiscard]] std::filesystem::path find_beside_program(const std::filesystem::path& file);

}  // namespace kolo
