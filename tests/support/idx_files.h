#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

// IDX files for tests, and small MNIST folders.
namespace kolo::testing {

inline std::string big_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

// Content of an IDX file: element type code (8 for uint8), dimensions, elements as in the file.
inline std::string idx_bytes(int type, const std::vector<std::uint32_t>& dimensions,
                             std::string_view elements) {
  std::string bytes = big_endian(static_cast<std::uint64_t>(type) << 8 | dimensions.size(), 4);
  for (const auto dimension : dimensions) bytes += big_endian(dimension, 4);
  return bytes.append(elements);
}

inline void write_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

// Writes the four MNIST files with few images of rows x rows pixels (at least 20) that a network
// learns at once: image i has label i % 10, which the place of a bright bar in grey noise tells.
inline void write_small_mnist(const std::filesystem::path& folder, std::uint32_t training_images,
                              std::uint32_t validation_images, std::uint32_t rows = 28) {
  const auto write_split = [&](const std::string& prefix, std::uint32_t count) {
    std::string pixels, labels;
    std::uint32_t noise = 1;
    for (std::uint32_t image = 0; image < count; ++image) {
      const std::uint32_t label = image % 10;
      labels.push_back(static_cast<char>(label));
      for (std::uint32_t row = 0; row < rows; ++row) {
        for (std::uint32_t column = 0; column < rows; ++column) {
          noise = noise * 1664525U + 1013904223U;  // Numerical Recipes' generator
          pixels.push_back(static_cast<char>(row / 2 == label ? 255 : noise >> 26));
        }
      }
    }
    write_file(folder / (prefix + "-images-idx3-ubyte"), idx_bytes(8, {count, rows, rows}, pixels));
    write_file(folder / (prefix + "-labels-idx1-ubyte"), idx_bytes(8, {count}, labels));
  };
  write_split("train", training_images);
  write_split("t10k", validation_images);
}

}  // namespace kolo::testing
