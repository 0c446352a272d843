#include "study/shipped_file.h"

#include "kolo/launch/launch_ranks.h"

namespace kolo {

namespace fs = std::filesystem;

fs::path installed_file(const fs::path& file) {
  return fs::path(own_program()).parent_path().parent_path() / "share/kolo" / file;
}

fs::path find_beside_program(const fs::path& file) {
  if (const auto installed = installed_file(file); fs::exists(installed)) return installed;
  for (auto folder = fs::path(own_program()).parent_path(); folder.has_relative_path();
       folder = folder.parent_path())
    if (fs::exists(folder / file)) return folder / file;
  return {};
}

}  // namespace kolo
