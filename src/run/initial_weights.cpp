#include "run/initial_weights.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/natural_order.h"
#include "config/settle.h"
#include "kolo/base/error.h"
#include "kolo/base/file_kind.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint/safetensors.h"
#include "run/load_checkpoint.h"
#include "run/resume.h"
#include "run/trained_run.h"

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

enum class TensorValues { left_out, read };

// The weights alone, and where they were found.
struct Saved {
  fs::path source;
  std::vector<NamedTensor> tensors;
  std::unordered_map<std::string, std::string> unread_types;  // of tensors that can't be read
};

// A tensor without values.
NamedTensor tensor_of(const SafetensorsEntry& entry) {
  const auto options =
      torch::TensorOptions(entry.is_readable() ? entry.dtype : torch::kByte).device(torch::kMeta);
  return {entry.name, torch::empty(entry.shape, options)};
}

Saved read_file(const fs::path& path, TensorValues values) {
  Saved saved{.source = path};
  try {
    for (const auto& entry : list_safetensors(path).tensors) {
      saved.tensors.push_back(tensor_of(entry));
      if (!entry.is_readable()) saved.unread_types.emplace(entry.name, entry.type_name);
    }
    if (values == TensorValues::left_out) return saved;
    std::unordered_map<std::string, torch::Tensor> read;
    for (auto& item : read_chosen_safetensors(path, &SafetensorsEntry::is_readable))
      read.emplace(item.name, item.tensor);
    for (auto& item : saved.tensors)
      if (const auto found = read.find(item.name); found != read.end()) item.tensor = found->second;
    return saved;
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw InputError(error.what());
  }
}

Saved read_saved(const fs::path& path, TensorValues values) {
  require_weights_source(path);
  if (!fs::is_directory(path)) return read_file(path, values);
  const auto checkpoint = find_checkpoint(find_trained_run("weights", path), "best");
  const auto reading =
      values == TensorValues::read ? CheckpointReading::whole : CheckpointReading::headers;
  return {checkpoint, load_named(checkpoint, reading).content.model, {}};
}

// Refuses a tensor that the network has and whose type can't be read.
void require_readable(const Saved& saved, const std::string& name) {
  const auto found = saved.unread_types.find(name);
  if (found == saved.unread_types.end()) return;
  throw InputError(
      fmt::format("{}: the tensor {}, which the network has, is of the type {}, which kolo doesn't "
                  "read; save it "
                  "as float32, in Python with .float()",
                  saved.source.string(), name, found->second));
}

std::string shape_of(const torch::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes().vec(), ", "));
}

// Weights that a network takes from a file, by name.
struct InitialWeights {
  fs::path source;                          // the checkpoint's folder, or the file
  std::vector<NamedTensor> fitting;         // as saved; of a file's headers without memory
  std::vector<std::string> missing;         // the network has them, the file hasn't
  std::vector<std::string> unexpected;      // the other way round
  std::vector<std::string> of_other_shape;  // "fc.weight [100, 512] instead of [10, 512]"
};

InitialWeights compare(Saved saved, const torch::nn::Module& network) {
  InitialWeights weights{.source = saved.source};
  std::unordered_map<std::string, torch::Tensor> there;
  for (const auto& item : saved.tensors) there.emplace(item.name, item.tensor);
  for (const auto& item : module_tensors(network)) {
    const auto found = there.find(item.name);
    if (found == there.end()) {
      weights.missing.push_back(item.name);
      continue;
    }
    if (found->second.sizes() == item.tensor.sizes()) {
      require_readable(saved, item.name);
      weights.fitting.push_back({item.name, found->second});
    } else {
      weights.of_other_shape.push_back(fmt::format("{} {} instead of {}", item.name,
                                                   shape_of(found->second), shape_of(item.tensor)));
    }
    there.erase(found);
  }
  for (const auto& item : saved.tensors)
    if (there.contains(item.name)) weights.unexpected.push_back(item.name);
  return weights;
}

// So many by name.
std::string list_of(const std::vector<std::string>& names, std::size_t most) {
  const auto shown = std::min(names.size(), most);
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(shown));
  const auto rest = names.size() - shown;
  return fmt::format("{}{}", fmt::join(first, ", "),
                     rest > 0 ? fmt::format(" and {} more", rest) : "");
}

void require_any(const InitialWeights& weights, const torch::nn::Module& network) {
  const auto parameters = network.named_parameters();
  const bool fits_any = std::ranges::any_of(
      weights.fitting, [&](const auto& item) { return parameters.contains(item.name); });
  if (fits_any) return;
  constexpr std::size_t most_named = 5;
  std::vector<std::string> wanted;
  for (const auto& item : parameters) wanted.push_back(item.key());
  throw InputError(fmt::format(
      "{} has no parameter that fits the network by name and shape: it has {}{}; the network has "
      "{}. Use weights of the same model (model.name), or rename them",
      weights.source.string(),
      weights.unexpected.empty() && weights.of_other_shape.empty()
          ? "no tensors"
          : list_of(weights.unexpected, most_named),
      weights.of_other_shape.empty() ? ""
                                     : fmt::format("{}{}", weights.unexpected.empty() ? "" : ", ",
                                                   list_of(weights.of_other_shape, most_named)),
      list_of(wanted, most_named)));
}

InitialWeights read_initial_weights(const RunConfig& config, const torch::nn::Module& network,
                                    TensorValues values) {
  return at_setting(config, "model.init_from", [&] {
    auto weights = compare(read_saved(config.model.init_from, values), network);
    require_any(weights, network);
    return weights;
  });
}

void log_weights(RunLog& log, const InitialWeights& weights, std::size_t wanted) {
  constexpr std::size_t most_named = 20;
  log.info("first weights from {}: {} of {} tensors", weights.source.string(),
           weights.fitting.size(), wanted);
  const auto warn = [&](std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty()) log.warn("{}: {}", what, list_of(names, most_named));
  };
  warn("not there, and so from the seed", weights.missing);
  warn("of another shape there, and so from the seed", weights.of_other_shape);
  warn("there, but not in the network", weights.unexpected);
}

}  // namespace

void require_initial_weights(const RunConfig& config, const torch::nn::Module& network) {
  (void)read_initial_weights(config, network, TensorValues::left_out);
}

void load_initial_weights(const RunConfig& config, const Communicator& communicator,
                          torch::nn::Module& network, RunLog* log) {
  if (communicator.rank() == 0) {
    const torch::NoGradGuard no_gradient;
    const auto weights = read_initial_weights(config, network, TensorValues::read);
    std::unordered_map<std::string, torch::Tensor> values;
    for (const auto& item : weights.fitting) values.emplace(item.name, item.tensor);
    const auto wanted = module_tensors(network);
    for (const auto& item : wanted)
      if (const auto found = values.find(item.name); found != values.end())
        torch::Tensor(item.tensor).copy_(found->second);
    if (log != nullptr) log_weights(*log, weights, wanted.size());
  }
  broadcast_parameters(communicator, network);
  broadcast_buffers(communicator, network);
}

}  // namespace kolo
