#include "kolo/base/part_file.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

namespace kolo {

namespace {

constexpr std::string_view suffix = ".part";

}  // namespace

std::filesystem::path part_file(const std::filesystem::path& file) {
  return file.string() + fmt::format(".{}{}", ::getpid(), suffix);
}

bool is_part_file(std::string_view name, std::string_view file) {
  if (!name.starts_with(file) || !name.ends_with(suffix)) return false;
  name.remove_prefix(file.size());
  if (name.size() <= suffix.size() + 1 || name.front() != '.') return false;
  name.remove_prefix(1);
  name.remove_suffix(suffix.size());
  return std::ranges::all_of(name, [](char letter) { return letter >= '0' && letter <= '9'; });
}

}  // namespace kolo
