#include "cli/output_file.h"

#include <algorithm>
#include <cctype>
#include <cerrno>

#include <fmt/format.h>
#include <unistd.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(std::string_view what, const fs::path& path, std::string_view reason) {
  throw InputError(fmt::format("{} {}: {}", what, path.string(), reason));
}

bool has_letter(const std::string& text) {
  return std::ranges::any_of(text, [](unsigned char letter) { return std::isalpha(letter) != 0; });
}

void require_writable_place(std::string_view what, const fs::path& path, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    refuse(what, path, fmt::format("there is no folder {}", folder.string()));
  if (::access(folder.c_str(), W_OK) != 0) {
    refuse(what, path,
           system_error_text(fmt::format("cannot write in {}", folder.string()), errno));
  }
}

}  // namespace

void require_ending(std::string_view what, const fs::path& file, const OutputKind& kind) {
  const auto ending = file.extension().string();
  if (!has_letter(ending) || std::ranges::find(kind.endings, ending) != kind.endings.end()) return;
  refuse(what, file,
         fmt::format("what is written is {}, expected a name that ends with {}, or without an "
                     "ending",
                     kind.name, join(kind.endings, " or ")));
}

void require_writable(std::string_view what, const fs::path& file, const OutputKind& kind) {
  std::error_code error;
  const auto status = fs::status(file, error);
  if (file.empty() || !file.has_filename()) refuse(what, file, "expected the name of a file");
  if (fs::is_directory(status)) refuse(what, file, "is a folder; name a file");
  require_ending(what, file, kind);
  require_writable_place(what, file, fs::absolute(file, error).parent_path());
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) refuse(what, file, "is there, and no file; name another");
  if (fs::file_size(file, error) == 0 || kind.is_one(file)) return;
  refuse(what, file,
         fmt::format("is there and is not {}; it would be lost: choose another name, or remove it",
                     kind.name));
}

void require_writable_folder(std::string_view what, const fs::path& folder) {
  std::error_code error;
  if (folder.empty()) refuse(what, folder, "expected the name of a folder");
  if (fs::exists(folder, error)) {
    if (!fs::is_directory(folder, error)) refuse(what, folder, "is there, and no folder");
    return require_writable_place(what, folder, folder);
  }
  auto above = fs::absolute(folder, error).lexically_normal();
  while (above.has_relative_path() && !fs::exists(above, error)) above = above.parent_path();
  require_writable_place(what, folder, above);
}

}  // namespace kolo
