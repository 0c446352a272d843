#pragma once

#include <filesystem>
#include <string>

#include "kolo/data/cifar10.h"
#include "support/idx_files.h"

namespace kolo::testing {

// One record of CIFAR-10's binary distribution; pixel i of image n is (n + i * 7) % 256.
inline std::string cifar10_row(int label, int image) {
  std::string bytes(cifar10_row_bytes, static_cast<char>(label));
  for (std::size_t i = 1; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>((image + (static_cast<int>(i) - 1) * 7) % 256);
  return bytes;
}

// Images first to first + count, labels image % 10.
inline std::string cifar10_batch(int first, int count) {
  std::string bytes;
  for (int image = first; image < first + count; ++image) bytes += cifar10_row(image % 10, image);
  return bytes;
}

// A whole small CIFAR-10: five batches of `per_batch` images, numbered through, and a test batch
// that counts from 100.
inline void write_small_cifar10(const std::filesystem::path& folder, int per_batch) {
  int first = 0;
  for (const auto name : cifar10_batch_files(Split::train)) {
    write_file(folder / name, cifar10_batch(first, per_batch));
    first += per_batch;
  }
  write_file(folder / "test_batch.bin", cifar10_batch(100, per_batch));
  write_file(folder / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
}

}  // namespace kolo::testing
