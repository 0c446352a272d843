#include "cli/output_file.h"

#include <cerrno>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/error.h"

namespace kolo {

namespace fs = std::filesystem;

void require_writable(std::string_view what, const fs::path& file) {
  std::error_code error;
  const auto folder = fs::absolute(file, error).parent_path();
  const auto refuse = [&](std::string_view reason) {
    throw InputError(fmt::format("{} {}: {}", what, file.string(), reason));
  };
  if (fs::is_directory(file, error)) refuse("is a folder; name a file");
  if (!fs::is_directory(folder, error))
    refuse(fmt::format("there is no folder {}", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0)
    refuse(system_error_text(fmt::format("cannot write in {}", folder.string()), errno));
}

}  // namespace kolo
