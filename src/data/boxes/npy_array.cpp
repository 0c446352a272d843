#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "data/boxes/file_arrays.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

std::int64_t npy_numbers(const NpyHeader& header) {
  std::int64_t numbers = 1;  // fits, since the header was compared with the file's size
  for (const auto length : header.shape) numbers *= length;
  return numbers;
}

// In Fortran order each number of a row lies elsewhere, so the file is mapped for that too.
ArrayLayout npy_layout(const std::filesystem::path& file, const NpyHeader& header,
                       ArrayAccess access) {
  // Along a single axis both orders are the same.
  const bool is_fortran_order =
      header.is_fortran_order &&
      std::ranges::count_if(header.shape, [](std::int64_t length) { return length > 1; }) > 1;
  return {.file = file,
          .type = header.type.name(),
          .shape = header.shape,
          .is_fortran_order = is_fortran_order,
          .stored_bytes = npy_numbers(header) * header.type.bytes,
          .is_mapped = is_fortran_order || access == ArrayAccess::regions};
}

// One of many files that are a row each.
struct NpyRow {
  std::filesystem::path file;
  std::int64_t offset = 0;
  bool is_fortran_order = false;
};

class NpyFiles final : public ArrayFile {
 public:
  NpyFiles(const std::filesystem::path& folder, NpyHeader first, std::vector<NpyRow> files)
      : ArrayFile(folder.string(), layout_of(folder, first, files.size()), first.type),
        header_(std::move(first)),
        files_(std::move(files)) {}

 private:
  static ArrayLayout layout_of(const std::filesystem::path& folder, const NpyHeader& first,
                               std::size_t files) {
    ArrayLayout layout{.file = folder, .type = first.type.name(), .shape = first.shape};
    layout.shape.insert(layout.shape.begin(), static_cast<std::int64_t>(files));
    return layout;
  }
  void read_bytes(const ArrayRegion& region, std::span<std::byte> bytes) const override {
    const auto row_bytes = bytes.size() / static_cast<std::size_t>(region.extent.front());
    const ArrayRegion row{{region.start.begin() + 1, region.start.end()},
                          {region.extent.begin() + 1, region.extent.end()}};
    for (std::int64_t i = 0; i < region.extent.front(); ++i, bytes = bytes.subspan(row_bytes)) {
      const auto& [file, offset, is_fortran_order] =
          files_[static_cast<std::size_t>(region.start.front() + i)];
      auto header = header_;
      header.is_fortran_order = is_fortran_order;
      PlainArray(file.string(), npy_layout(file, header, ArrayAccess::rows), type(), offset)
          .read_bytes(row, bytes.first(row_bytes));
    }
  }

  NpyHeader header_;  // of all, but for their order and offsets
  std::vector<NpyRow> files_;
};

}  // namespace

std::shared_ptr<const ArrayFile> open_npy_array(const std::filesystem::path& file,
                                                ArrayAccess access) {
  const auto header = read_npy_header(file);
  return std::make_shared<PlainArray>(file.string(), npy_layout(file, header, access), header.type,
                                      header.data_offset);
}

std::shared_ptr<const ArrayFile> open_npy_files(const std::filesystem::path& folder,
                                                const std::vector<std::filesystem::path>& files) {
  if (files.empty()) throw InputError(fmt::format("data: {} holds no .npy files", folder.string()));
  auto first = read_npy_header(files.front());
  std::vector<NpyRow> rows;
  for (const auto& file : files) {
    const auto header = read_npy_header(file);
    if (header.shape != first.shape || header.type != first.type) {
      throw InputError(fmt::format(
          "data: {} holds ({}) numbers of type {}, but {} ({}) of {}; all samples must be alike",
          file.string(), shape_text(header.shape), header.type.name(), files.front().string(),
          shape_text(first.shape), first.type.name()));
    }
    rows.push_back({file, header.data_offset, header.is_fortran_order});
  }
  return std::make_shared<NpyFiles>(folder, std::move(first), std::move(rows));
}

}  // namespace kolo
