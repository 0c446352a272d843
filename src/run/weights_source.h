#pragma once

#include <filesystem>

namespace kolo {

// The file or folder that model.init_from names, where it is one of kolo's or a file of
// safetensors. InputError that says what it is instead, and how to make a file of safetensors of
// it: a checkpoint of PyTorch, TorchScript, an index of several files, a folder of Hugging Face's,
// a Git LFS pointer, a page that was downloaded in place of a file.
void require_weights_source(const std::filesystem::path& path);

}  // namespace kolo
