#pragma once

#include <filesystem>
#include <string>

#include "support/idx_files.h"

namespace kolo::testing {

// One record of CIFAR-10's binary distribution; pixel i of image n is (n + i * 7) % 256.
inline std::string cifar10_record(int label, int image) {
  std::string bytes(1, static_cast<char>(label));
  for (int i = 0; i < 3072; ++i) bytes.push_back(static_cast<char>((image + i * 7) % 256));
  return bytes;
}

// Images first to first + count, labels image % 10.
inline std::string cifar10_batch(int first, int count) {
  std::string bytes;
  for (int image = first; image < first + count; ++image)
    bytes += cifar10_record(image % 10, image);
  return bytes;
}

// A whole small CIFAR-10: five batches of `per_batch` images, numbered through, and a test batch
// that counts from 100.
inline void write_small_cifar10(const std::filesystem::path& folder, int per_batch) {
  for (int batch = 0; batch < 5; ++batch) {
    write_file(folder / ("data_batch_" + std::to_string(batch + 1) + ".bin"),
               cifar10_batch(batch * per_batch, per_batch));
  }
  write_file(folder / "test_batch.bin", cifar10_batch(100, per_batch));
  write_file(folder / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
}

}  // namespace kolo::testing
