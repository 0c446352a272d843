#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <archive.h>
#include <archive_entry.h>

namespace kolo::testing {

struct ArchiveEntry {
  std::string path, content;
  std::string link;  // not empty: a symbolic link to this
};

// A .tar.gz with these entries.
inline std::string tar_gz(const std::vector<ArchiveEntry>& entries) {
  std::string bytes(std::size_t{1} << 22, '\0');
  std::size_t used = 0;
  archive* const output = archive_write_new();
  archive_write_add_filter_gzip(output);
  archive_write_set_format_ustar(output);
  bool is_fine = archive_write_open_memory(output, bytes.data(), bytes.size(), &used) == ARCHIVE_OK;
  for (const auto& [path, content, link] : entries) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, path.c_str());
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_filetype(entry, link.empty() ? AE_IFREG : AE_IFLNK);
    if (!link.empty()) archive_entry_set_symlink(entry, link.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    is_fine = is_fine && archive_write_header(output, entry) == ARCHIVE_OK &&
              archive_write_data(output, content.data(), content.size()) ==
                  static_cast<la_ssize_t>(content.size());
    archive_entry_free(entry);
  }
  is_fine = archive_write_close(output) == ARCHIVE_OK && is_fine;
  archive_write_free(output);
  if (!is_fine) throw std::runtime_error("cannot make an archive");
  bytes.resize(used);
  return bytes;
}

}  // namespace kolo::testing
