#pragma once

#include <cstddef>
#include <span>
#include <string_view>

// Targets of the fuzzers: each function reads a file's bytes as one format. InputError (of
// checkpoints: Error) is the right answer to bytes that are no such file and is swallowed; any
// other exception, a crash, a leak or a broken promise (which ends the program) is a find.
namespace kolo::fuzz {

void read_jpeg(std::span<const std::byte> file);
void read_png(std::span<const std::byte> file);
void read_idx(std::span<const std::byte> file);  // plain and gzip
void read_cifar10(std::span<const std::byte> file);
void read_npy(std::span<const std::byte> file);
void read_safetensors(std::span<const std::byte> file);  // the header
void read_manifest(std::span<const std::byte> file);     // of a checkpoint

struct Target {
  std::string_view name;  // of its folder in fuzz/corpus
  void (*read)(std::span<const std::byte>);
};

inline constexpr Target targets[] = {{"jpeg", read_jpeg},        {"png", read_png},
                                     {"idx", read_idx},          {"cifar10", read_cifar10},
                                     {"npy", read_npy},          {"safetensors", read_safetensors},
                                     {"manifest", read_manifest}};

}  // namespace kolo::fuzz
