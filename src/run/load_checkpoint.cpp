#include "run/resume.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include "base/json_value.h"
#include "config/settle.h"
#include "kolo/base/error.h"
#include "kolo/base/file_kind.h"
#include "kolo/base/text.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "kolo/train/checkpoint/safetensors.h"
#include "run/trained_run.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// Reads a step's number, also with the leading zeros of a folder's name.
std::optional<std::int64_t> step_of(std::string_view text) {
  while (text.size() > 1 && text.starts_with('0')) text.remove_prefix(1);
  const auto step = parse_number<std::int64_t>(text);
  return step && *step >= 0 ? step : std::nullopt;
}

// Text "it holds those of the steps 13, 26 (the best), 39".
std::string what_there_is(const CheckpointStore& store) {
  std::vector<std::string> names;
  const auto best = store.best();
  for (const auto& entry : store.list()) {
    const bool is_best = best && best->step == entry.step;
    names.push_back(fmt::format("{}{}", entry.step, is_best ? " (the best)" : ""));
  }
  std::ranges::reverse(names);
  if (names.empty()) return "it holds none that can be used";
  return fmt::format("it holds those of the steps {}", fmt::join(names, ", "));
}

// Path of the entry. Refuses where a newer, damaged checkpoint may be the wanted one.
fs::path found(const CheckpointStore& store, const std::optional<CheckpointStore::Entry>& entry,
               const std::string& choice) {
  for (const auto& damaged : store.damaged()) {
    if (entry && damaged.step <= entry->step) continue;
    throw InputError(fmt::format(
        "checkpoint: which one is the {} can't be told: {} is damaged: {}; name another one: {}",
        choice, damaged.path.string(), damaged.reason, what_there_is(store)));
  }
  return entry ? entry->path : fs::path();
}

[[noreturn]] void refuse_empty(const RunFolder& folder) {
  throw InputError(fmt::format(
      "resume: {} holds no checkpoint that can be used; name the run's folder (--output "
      "DIR), or run without --resume to start from the beginning",
      folder.checkpoints().string()));
}

}  // namespace

fs::path find_checkpoint(const RunFolder& folder, const std::string& choice) {
  const auto store = folder.checkpoint_store();
  if (choice == newest_checkpoint) {
    const auto all = store.list();
    const auto path = found(store, all.empty() ? std::nullopt : std::optional(all.front()), choice);
    if (!path.empty()) return path;
    throw InputError(fmt::format("checkpoint: {} holds none", folder.checkpoints().string()));
  }
  if (choice == "best") {
    if (auto path = found(store, store.best(), choice); !path.empty()) return path;
    throw InputError(
        fmt::format("checkpoint: no checkpoint in {} was the best when it was saved; {}",
                    folder.checkpoints().string(), what_there_is(store)));
  }
  if (const auto step = step_of(choice)) {
    for (const auto& entry : store.list())
      if (entry.step == *step) return entry.path;
    // Reading it tells what is wrong with it.
    const auto damaged = folder.checkpoints() / fmt::format("step-{:08}", *step);
    if (fs::exists(damaged)) return damaged;
    throw InputError(fmt::format("checkpoint: {} holds no checkpoint of step {}; {}",
                                 folder.checkpoints().string(), *step, what_there_is(store)));
  }
  const fs::path path = fs::absolute(choice).lexically_normal();
  if (fs::exists(path / "manifest.json")) return path.has_filename() ? path : path.parent_path();
  throw InputError(fmt::format(
      "checkpoint: {} is no checkpoint, which is a folder step-NNNNNNNN with manifest.json "
      "in it; give newest, best, a step, or a checkpoint's folder",
      choice));
}

LoadedCheckpoint load_named(const fs::path& path, CheckpointReading reading) {
  try {
    return CheckpointStore::load(path, reading);
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw InputError(fmt::format("checkpoint: {} can't be used: {}", path.string(), error.what()));
  }
}

LoadedCheckpoint load_chosen(const RunFolder& folder, const std::string& choice,
                             const std::function<void(const std::string&)>& warn,
                             CheckpointReading reading) {
  const auto store = folder.checkpoint_store();
  if (choice == newest_checkpoint) {
    auto loaded = store.load_newest(warn, reading);
    if (!loaded) refuse_empty(folder);
    return std::move(*loaded);
  }
  const bool is_of_folder = choice == "best" || step_of(choice);
  if (is_of_folder && !folder.holds_step_folder()) refuse_empty(folder);
  return load_named(find_checkpoint(folder, choice), reading);
}

ResumePoint resume_point(const LoadedCheckpoint& loaded) {
  const auto& state = loaded.content.state;
  try {
    ResumePoint point{loaded.path, loaded.step};
    point.epoch = json_value<std::int64_t>(state, "epoch");
    point.position = json_value<std::int64_t>(state, "position");
    point.best_epoch = json_value<std::int64_t>(state, "best_epoch");
    point.ranks = json_value<int>(state, "ranks");
    point.made_with = state.value("made_with", nlohmann::json());
    point.samples = json_value<std::int64_t>(state, "training_samples");
    point.run = loaded.path.parent_path().parent_path();
    return point;
  } catch (const JsonError& error) {
    throw Error(fmt::format("resume: the state.json of {} is not one of kolo's: {}",
                            loaded.path.string(), error.what()));
  }
}

namespace {

void require_weights_file(const fs::path& path) {
  using enum FileKind;
  const auto content = content_of_file(path);
  if (content.kind == safetensors || content.kind == unknown)
    return;  // reading it says what is wrong
  const bool has_weights = content.kind == torch_checkpoint || content.kind == torch_script ||
                           content.kind == safetensors_index;
  throw InputError(fmt::format(
      "{} is no file of safetensors: {}{}", path.string(), other_file_text(content, ""),
      has_weights ? "; have Python write all weights to one: safetensors.torch.save_file({name: "
                    "tensor.contiguous().clone() for name, tensor in weights.items()}, FILE)"
                  : ""));
}

void require_weights_source(const fs::path& path) {
  if (!fs::exists(path)) {  // throws where the system refuses the name
    throw InputError(
        fmt::format("{}; give a run's folder, a checkpoint's (step-NNNNNNNN), or a file of "
                    "safetensors",
                    missing_path_text(path)));
  }
  if (!fs::is_directory(path)) require_weights_file(path);
}

// Weights, and the file or checkpoint that has them.
struct Saved {
  fs::path source;
  std::vector<NamedTensor> tensors;
  std::unordered_map<std::string, std::string> unread_types;  // of tensors that can't be read
};

// Makes a tensor without values.
NamedTensor tensor_of(const SafetensorsEntry& entry) {
  const auto options =
      torch::TensorOptions(entry.is_readable() ? entry.dtype : torch::kByte).device(torch::kMeta);
  return {entry.name, torch::empty(entry.shape, options)};
}

Saved read_file(const fs::path& path, CheckpointReading reading) {
  Saved saved{.source = path};
  try {
    for (const auto& entry : list_safetensors(path).tensors) {
      if (!entry.is_readable()) saved.unread_types.emplace(entry.name, entry.type_name);
      if (!entry.is_readable() || reading == CheckpointReading::headers)
        saved.tensors.push_back(tensor_of(entry));
    }
    if (reading == CheckpointReading::headers) return saved;
    for (auto& item : read_chosen_safetensors(path, &SafetensorsEntry::is_readable))
      saved.tensors.push_back(std::move(item));
    return saved;
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    throw InputError(error.what());
  }
}

Saved read_saved(const fs::path& path, CheckpointReading reading) {
  require_weights_source(path);
  if (!fs::is_directory(path)) return read_file(path, reading);
  const auto checkpoint = find_checkpoint(find_trained_run("weights", path), "best");
  return {checkpoint, load_named(checkpoint, reading).content.model, {}};
}

// Refuses a tensor that the network has and whose type can't be read.
void require_readable(const Saved& saved, const std::string& name) {
  const auto found = saved.unread_types.find(name);
  if (found == saved.unread_types.end()) return;
  throw InputError(
      fmt::format("{}: the tensor {}, which the network has, is of the type {}, which kolo doesn't "
                  "read; save it as float32, in Python with .float()",
                  saved.source.string(), name, found->second));
}

// Weights that a network takes from a file, by name.
struct InitialWeights {
  fs::path source;                          // the checkpoint's folder, or the file
  std::vector<NamedTensor> fitting;         // as saved; of a file's headers without memory
  std::vector<torch::Tensor> wanted;        // the network's own, in the same order
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
      weights.wanted.push_back(item.tensor);
    } else {
      weights.of_other_shape.push_back(fmt::format("{} [{}] instead of [{}]", item.name,
                                                   fmt::join(found->second.sizes(), ", "),
                                                   fmt::join(item.tensor.sizes(), ", ")));
    }
    there.erase(found);
  }
  for (const auto& item : saved.tensors)
    if (there.contains(item.name)) weights.unexpected.push_back(item.name);
  return weights;
}

void require_any(const InitialWeights& weights, const torch::nn::Module& network) {
  const auto parameters = network.named_parameters();
  const bool fits_any = std::ranges::any_of(
      weights.fitting, [&](const auto& item) { return parameters.contains(item.name); });
  if (fits_any) return;
  std::vector<std::string> wanted;
  for (const auto& item : parameters) wanted.push_back(item.key());
  throw InputError(fmt::format(
      "{} has no parameter that fits the network by name and shape: it has {}{}; the network has "
      "{}. Use weights of the same model (model.name), or rename them",
      weights.source.string(),
      weights.unexpected.empty() && weights.of_other_shape.empty() ? "no tensors"
                                                                   : join_first(weights.unexpected),
      weights.of_other_shape.empty() ? ""
                                     : fmt::format("{}{}", weights.unexpected.empty() ? "" : ", ",
                                                   join_first(weights.of_other_shape)),
      join_first(wanted)));
}

InitialWeights read_initial_weights(const RunConfig& config, const torch::nn::Module& network,
                                    CheckpointReading reading) {
  return at_setting(config, "model.init_from", [&] {
    auto weights = compare(read_saved(config.model.init_from, reading), network);
    require_any(weights, network);
    return weights;
  });
}

void log_weights(RunLog& log, const InitialWeights& weights, std::size_t wanted) {
  constexpr std::size_t most_named = 20;
  log.info("first weights from {}: {} of {} tensors", weights.source.string(),
           weights.fitting.size(), wanted);
  const auto warn = [&](std::string_view what, const std::vector<std::string>& names) {
    if (!names.empty()) log.warn("{}: {}", what, join_first(names, most_named));
  };
  warn("not there, and so from the seed", weights.missing);
  warn("of another shape there, and so from the seed", weights.of_other_shape);
  warn("there, but not in the network", weights.unexpected);
}

}  // namespace

void require_initial_weights(const RunConfig& config, const torch::nn::Module& network) {
  (void)read_initial_weights(config, network, CheckpointReading::headers);
}

void load_initial_weights(const RunConfig& config, const Communicator& communicator,
                          torch::nn::Module& network, RunLog* log) {
  if (communicator.rank() == 0) {
    const torch::NoGradGuard no_gradient;
    const auto weights = read_initial_weights(config, network, CheckpointReading::whole);
    for (std::size_t i = 0; i < weights.fitting.size(); ++i)
      torch::Tensor(weights.wanted[i]).copy_(weights.fitting[i].tensor);
    if (log != nullptr) log_weights(*log, weights, module_tensors(network).size());
  }
  broadcast_parameters(communicator, network);
  broadcast_buffers(communicator, network);
}

}  // namespace kolo
