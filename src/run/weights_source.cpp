#include "run/weights_source.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/natural_order.h"
#include "kolo/base/error.h"
#include "kolo/base/file_kind.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view index_ending = ".safetensors.index.json";

// A line of Python that writes the dictionary `weights` of sys.argv[1] to sys.argv[2]: safetensors
// takes neither views nor tensors that share memory.
std::string conversion(const fs::path& from, std::string_view weights) {
  auto to = from;
  to.replace_extension(".safetensors");
  return fmt::format(
      "python3 -c \"import sys, torch, safetensors.torch as s; s.save_file({{k: "
      "v.contiguous().clone() for k, v in {}.items()}}, sys.argv[2])\" {} {}",
      weights, from.string(), to.string());
}

[[noreturn]] void refuse_checkpoint(const fs::path& path, std::string_view what) {
  throw InputError(fmt::format(
      "{} is {}, expected a file of safetensors; make one of it: {} (where the weights are a part "
      "of what was saved, put their key behind torch.load(...), as in ['state_dict'])",
      path.string(), what,
      conversion(path, "torch.load(sys.argv[1], map_location='cpu', weights_only=True)")));
}

[[noreturn]] void refuse_script(const fs::path& path, std::string_view what) {
  throw InputError(fmt::format(
      "{} is {}, expected a file of safetensors; make one of it: {} (or train it as it is: model: "
      "{{name: torchscript, file: {}}})",
      path.string(), what,
      conversion(path, "torch.jit.load(sys.argv[1], map_location='cpu').state_dict()"),
      path.string()));
}

// model.safetensors.index.json lies beside model-00001-of-00003.safetensors and so on.
[[noreturn]] void refuse_index(const fs::path& path) {
  auto stem = path.filename().string();
  if (stem.ends_with(index_ending)) stem.resize(stem.size() - index_ending.size());
  const auto folder = path.parent_path();
  throw InputError(fmt::format(
      "{} is the index of weights that are sharded over several files of safetensors, expected "
      "one file; join them: python3 -c \"import sys, safetensors.torch as s; s.save_file({{k: v "
      "for "
      "f in sys.argv[2:] for k, v in s.load_file(f).items()}}, sys.argv[1])\" {} {}",
      path.string(), (folder / (stem + "-joined.safetensors")).string(),
      (folder / (stem + "-*-of-*.safetensors")).string()));
}

void require_weights_file(const fs::path& path) {
  const auto content = content_of_file(path);
  switch (content.kind) {
    case FileKind::safetensors:
    case FileKind::unknown:  // reading it says what is wrong
      return;
    case FileKind::torch_checkpoint:
      refuse_checkpoint(path, content.name);
    case FileKind::torch_script:
      refuse_script(path, content.name);
    case FileKind::safetensors_index:
      refuse_index(path);
    default:
      if (content.kind == FileKind::json && path.filename().native().ends_with(index_ending))
        refuse_index(path);
      throw InputError(fmt::format("{} is no file of safetensors: {}", path.string(),
                                   other_file_text(content, "")));
  }
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names, comes_before);
  return names;
}

// A folder that is not one of kolo's, but has weights in it: the file that is to be named.
void refuse_folder_of_weights(const fs::path& folder) {
  const auto names = names_in(folder);
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  const auto with_ending = [&](std::string_view ending) {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return name.ends_with(ending); });
    return found == names.end() ? fs::path() : folder / *found;
  };
  const auto refuse_for = [&](const fs::path& file) {
    throw InputError(fmt::format("{} is {}, expected a file of weights: give {}", folder.string(),
                                 has("config.json") ? "a folder of Hugging Face's"
                                                    : "neither a run's folder nor a checkpoint's",
                                 file.string()));
  };
  if (has("model.safetensors")) refuse_for(folder / "model.safetensors");
  if (const auto index = with_ending(index_ending); !index.empty()) refuse_index(index);
  if (const auto file = with_ending(".safetensors"); !file.empty()) refuse_for(file);
  for (const auto* const ending : {"pytorch_model.bin", ".pt", ".pth"})
    if (const auto file = with_ending(ending); !file.empty()) require_weights_file(file);
}

}  // namespace

void require_weights_source(const fs::path& path) {
  if (!fs::exists(path)) {  // throws where the system refuses the name
    throw InputError(
        fmt::format("{}; give a run's folder, a checkpoint's (step-NNNNNNNN), or a file of "
                    "safetensors",
                    missing_path_text(path)));
  }
  if (!fs::is_directory(path)) return require_weights_file(path);
  if (!fs::exists(path / "manifest.json") && !fs::exists(path / "config.yaml"))
    refuse_folder_of_weights(path);
}

}  // namespace kolo
