#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

// The folders of checkpoints: names, manifest.json, which tells a whole one from a damaged one, and
// removal.
namespace kolo {

inline constexpr std::string_view model_stem = "model";
inline constexpr std::string_view optimizer_stem = "optimizer";
inline constexpr const char* state_file_name = "state.json";
inline constexpr const char* manifest_file_name = "manifest.json";

// "model.safetensors" of one shard, "model-00001-of-00004.safetensors" of the first of four.
[[nodiscard]] std::string tensors_file_name(std::string_view part, int shard, int shards);

struct Manifest {
  struct File {
    std::string name;
    std::uint64_t size = 0;   // bytes
    std::uint32_t crc32 = 0;  // zlib's
  };
  std::int64_t step = 0;
  bool is_best = false;
  int shards = 1;
  std::vector<File> files;  // the model's shards, the optimizer's, the state
};

// Error: what is wrong, and where; never with the file's own bytes, which a terminal must not see.
[[nodiscard]] nlohmann::json read_json(const std::filesystem::path& path);

// JSON by which writers tell each other about their files, and back. Error: not what to_json()
// makes.
[[nodiscard]] nlohmann::ordered_json to_json(const Manifest::File& file);
[[nodiscard]] Manifest::File file_from_json(const nlohmann::json& document);

// Writes folder/manifest.json, flushed.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// True if the folder has a manifest of kolo's, valid or not: then it is a checkpoint, perhaps a
// damaged one.
[[nodiscard]] bool has_manifest(const std::filesystem::path& folder);

// Error: missing, malformed or incomplete.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& folder);

// Error: a file is missing or has another size.
void verify_sizes(const std::filesystem::path& folder, const Manifest& manifest);

// Error: a file's contents are not those that were written; `crc32` is what was found.
void require_checksum(const std::filesystem::path& folder, const Manifest::File& file,
                      std::uint32_t crc32);
// The same, reading the file.
void verify_checksum(const std::filesystem::path& folder, const Manifest::File& file);

struct StepFolder {
  std::filesystem::path path;
  std::int64_t step = 0;
  bool is_replaced = false;
};

// "step-NNNNNNNN"
[[nodiscard]] std::string step_name(std::int64_t step);
// Name of a checkpoint while a newer one of the same step takes its place. It still counts as a
// checkpoint, so that a crash between the two renames loses none.
[[nodiscard]] std::string replaced_name(std::int64_t step);
// ".step-NNNNNNNN.part", while it is written
[[nodiscard]] std::string aside_name(std::int64_t step);

// Parses "step-NNNNNNNN" and "step-NNNNNNNN.replaced"; nullopt for every other name.
[[nodiscard]] std::optional<StepFolder> parse_folder(const std::filesystem::path& path);

// Newest first; of one step, the one that replaces before the one being replaced.
[[nodiscard]] std::vector<StepFolder> step_folders(const std::filesystem::path& parent);

// Removes a checkpoint's own files, and then their folder unless something else lies in it. The
// manifest goes last, so that a crash leaves a folder that is known for what it is.
void remove_own_files(const std::filesystem::path& folder);

// Removes a step folder, if its manifest shows that it is kolo's.
void remove_checkpoint(const std::filesystem::path& path);

// Renames what lies in the way of a checkpoint and is none: step-00000025.1 and so on.
void move_out_of_the_way(const std::filesystem::path& path);

// Removes what an interrupted save left: folders made aside, and folders being replaced.
void remove_leftovers(const std::filesystem::path& parent);

}  // namespace kolo
