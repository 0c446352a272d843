#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kolo {

// Numbers of a file, [samples, ...]: an array of NumPy's (.npy) or a dataset of HDF5. Const
// functions may be called by any number of threads at once.
class NumberArray {
 public:
  virtual ~NumberArray() = default;

  // Of one sample.
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] std::int64_t size() const { return size_; }
  // For messages: "FILE" or "FILE: inputs".
  [[nodiscard]] const std::string& name() const { return name_; }
  // Whether they are whole numbers, as classes are.
  [[nodiscard]] bool is_whole() const { return type_.at(1) != 'f'; }

  // One sample's, as float32. Error where the file can't be read.
  void read(std::int64_t index, std::span<float> numbers) const;
  // All numbers, of whole ones.
  [[nodiscard]] std::vector<std::int64_t> read_whole_numbers() const;

 protected:
  NumberArray(std::string name, std::string type, std::vector<std::int64_t> shape);
  // So many samples from `first` on, in the file's type.
  virtual void read_samples(std::int64_t first, std::int64_t count,
                            std::span<std::byte> bytes) const = 0;
  [[nodiscard]] std::size_t sample_bytes() const { return sample_bytes_; }

 private:
  std::string name_, type_;  // as NumPy writes it
  std::vector<std::int64_t> shape_;
  std::int64_t size_;
  std::size_t sample_bytes_;
};

// What of NumPy's types there may be: "<f4", "<f8", "|u1", ...
[[nodiscard]] std::span<const std::string_view> number_types();

// InputError that names the file and what is wrong: not an array of numbers with samples in front.
[[nodiscard]] std::shared_ptr<const NumberArray> open_npy_array(const std::filesystem::path& file);
// Each of these files is one sample, all of one shape and type. The files are looked at once; each
// is opened when it is read. InputError as above, and where files differ.
[[nodiscard]] std::shared_ptr<const NumberArray> open_npy_files(
    const std::string& name, std::vector<std::filesystem::path> files);
// Null where the file has no dataset of that name. InputError for what can't be read, and for
// another rank than samples and something. One thread reads at a time.
[[nodiscard]] std::shared_ptr<const NumberArray> open_hdf5_array(const std::filesystem::path& file,
                                                                 const std::string& dataset);

}  // namespace kolo
