#include "data/boxes/number_array.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "data/boxes/field_source.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/data/npy.h"

namespace kolo {

namespace {

constexpr std::array<std::string_view, 9> types{"<f8", "<i8", "<i4", "<i2", "|i1",
                                                "<u4", "<u2", "|u1", "|b1"};

template <typename From, typename To>
void convert_from(std::span<const std::byte> bytes, std::span<To> numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    From number{};
    std::memcpy(&number, bytes.data() + i * sizeof(From), sizeof(From));
    numbers[i] = static_cast<To>(number);
  }
}

template <typename To>
void convert(std::string_view type, std::span<const std::byte> bytes, std::span<To> numbers) {
  const auto kind = type.substr(1);
  if (kind == "f4") return convert_from<float>(bytes, numbers);
  if (kind == "f8") return convert_from<double>(bytes, numbers);
  if (kind == "i8") return convert_from<std::int64_t>(bytes, numbers);
  if (kind == "i4") return convert_from<std::int32_t>(bytes, numbers);
  if (kind == "i2") return convert_from<std::int16_t>(bytes, numbers);
  if (kind == "i1") return convert_from<std::int8_t>(bytes, numbers);
  if (kind == "u4") return convert_from<std::uint32_t>(bytes, numbers);
  if (kind == "u2") return convert_from<std::uint16_t>(bytes, numbers);
  return convert_from<std::uint8_t>(bytes, numbers);
}

std::int64_t product(std::span<const std::int64_t> lengths) {
  return checked_product(lengths);
}

void read_at(int file, std::int64_t offset, std::span<std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const auto count = ::pread(file, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(system_error_text(fmt::format("data: cannot read {}", name), errno));
    if (count == 0) throw Error(fmt::format("data: {} became shorter while it was used", name));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

FileDescriptor open_input(const std::filesystem::path& file) {
  try {
    return open_regular_file(file);
  } catch (const Error& error) {
    throw InputError(fmt::format("data: {}", error.what()));
  }
}

class NpyArray final : public NumberArray {
 public:
  NpyArray(const std::filesystem::path& file, const NpyHeader& header)
      : NumberArray(file.string(), header.type, header.shape),
        offset_(header.data_offset),
        file_(open_input(file)) {}

 private:
  void read_samples(std::int64_t first, std::int64_t /*count*/,
                    std::span<std::byte> bytes) const override {
    read_at(file_.get(), offset_ + first * static_cast<std::int64_t>(sample_bytes()), bytes,
            name());
  }

  std::int64_t offset_;
  FileDescriptor file_;
};

std::vector<std::int64_t> with_samples(std::int64_t samples, std::vector<std::int64_t> shape) {
  shape.insert(shape.begin(), samples);
  return shape;
}

class NpyFiles final : public NumberArray {
 public:
  NpyFiles(const std::string& name, const NpyHeader& header,
           std::vector<std::filesystem::path> files, std::vector<std::int64_t> offsets)
      : NumberArray(name, header.type,
                    with_samples(static_cast<std::int64_t>(files.size()), header.shape)),
        files_(std::move(files)),
        offsets_(std::move(offsets)) {}

 private:
  void read_samples(std::int64_t first, std::int64_t count,
                    std::span<std::byte> bytes) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(first + i);
      const auto file = open_input(files_[at]);
      read_at(file.get(), offsets_[at],
              bytes.subspan(static_cast<std::size_t>(i) * sample_bytes(), sample_bytes()),
              files_[at].string());
    }
  }

  std::vector<std::filesystem::path> files_;
  std::vector<std::int64_t> offsets_;
};

}  // namespace

std::span<const std::string_view> number_types() {
  return types;
}

NumberArray::NumberArray(std::string name, std::string type, std::vector<std::int64_t> shape)
    : name_(std::move(name)), type_(std::move(type)) {
  if (shape.empty() || shape.front() < 1) {
    throw InputError(
        fmt::format("data: {} has the shape ({}), expected samples in front, at least "
                    "one",
                    name_, shape_text(std::span<const std::int64_t>(shape))));
  }
  size_ = shape.front();
  shape_.assign(shape.begin() + 1, shape.end());
  const auto numbers = product(shape_);
  if (numbers < 1) throw InputError(fmt::format("data: the samples of {} are empty", name_));
  sample_bytes_ = narrow<std::size_t>(checked_multiply(numbers, npy_element_bytes(type_)));
}

void NumberArray::read(std::int64_t index, std::span<float> numbers) const {
  std::vector<std::byte> bytes(sample_bytes_);
  read_samples(index, 1, bytes);
  convert(type_, bytes, numbers);
}

std::vector<std::int64_t> NumberArray::read_whole_numbers() const {
  std::vector<std::byte> bytes(checked_multiply(sample_bytes_, narrow<std::size_t>(size_)));
  read_samples(0, size_, bytes);
  std::vector<std::int64_t> numbers(bytes.size() /
                                    static_cast<std::size_t>(npy_element_bytes(type_)));
  convert(type_, bytes, std::span(numbers));
  return numbers;
}

std::shared_ptr<const NumberArray> open_npy_array(const std::filesystem::path& file) {
  return std::make_shared<NpyArray>(file, read_npy_header(file, types));
}

std::shared_ptr<const NumberArray> open_npy_files(const std::string& name,
                                                  std::vector<std::filesystem::path> files) {
  if (files.empty()) throw InputError(fmt::format("data: {} holds no .npy files", name));
  const auto first = read_npy_header(files.front(), types);
  std::vector<std::int64_t> offsets;
  for (const auto& file : files) {
    const auto header = read_npy_header(file, types);
    if (header.shape != first.shape || header.type != first.type) {
      throw InputError(fmt::format(
          "data: {} holds ({}) numbers of type {}, but {} ({}) of {}; all samples must be alike",
          file.string(), shape_text(std::span<const std::int64_t>(header.shape)), header.type,
          files.front().string(), shape_text(std::span<const std::int64_t>(first.shape)),
          first.type));
    }
    offsets.push_back(header.data_offset);
  }
  return std::make_shared<NpyFiles>(name, first, std::move(files), std::move(offsets));
}

}  // namespace kolo
