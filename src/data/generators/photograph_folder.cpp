#include "kolo/data/photograph_folder.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>

#include <fmt/format.h>

#include "data/generators/for_each_index.h"
#include "data/generators/photograph.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/folder.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// Sets the numbers apart from those that other generators and training draw with the same seed.
constexpr std::uint32_t photograph_stream = 0xF0706247;
constexpr std::int64_t training_to_validation = 5;
constexpr std::array<std::string_view, 2> split_folders = {"train", "valid"};

void check(const PhotographFolderOptions& options) {
  constexpr std::int64_t least = 16, most = 8192;
  if (options.per_class < 1) {
    throw InputError(
        fmt::format("data: {} images of each class: expected at least 1", options.per_class));
  }
  if (options.least_side < least || options.most_side > most ||
      options.least_side > options.most_side) {
    throw InputError(fmt::format("data: sizes of {} to {} pixels: expected {} to {}, least first",
                                 options.least_side, options.most_side, least, most));
  }
}

// A file to be: which image it is of and where it goes.
struct Task {
  std::int64_t image = 0;
  fs::path file;
};

// The first images of each class; makes the classes' folders.
std::vector<Task> plan(const fs::path& folder, const SmallImages& images,
                       std::span<const std::string> folders, std::int64_t per_class) {
  for (const auto& name : folders) fs::create_directories(folder / name);
  std::vector<std::int64_t> counts(folders.size());
  std::vector<Task> tasks;
  for (std::int64_t image = 0; image < images.size; ++image) {
    const auto label = static_cast<std::size_t>(images.label(image));
    if (counts.at(label) == per_class) continue;
    const auto name = fmt::format("{}_{:05}.jpg", folders[label], counts[label]++);
    tasks.push_back({image, folder / folders[label] / name});
  }
  for (std::size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] == per_class) continue;
    throw InputError(fmt::format("data: {} images of class {} asked for, there are {}", per_class,
                                 folders[label], counts[label]));
  }
  return tasks;
}

// Without a flush of its own: the whole folder is flushed at once.
void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    throw Error(system_error_text(fmt::format("data: cannot create {}", path.string()), errno));
  }
  write_all(file.get(), bytes, path);
  file.close(path);
}

}  // namespace

std::string class_folder(std::int64_t label, std::string_view name) {
  auto folder = fmt::format("{}_{}", label, name);
  for (char& letter : folder) {
    const auto byte = static_cast<unsigned char>(letter);
    letter = std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return folder;
}

std::array<std::int64_t, 2> write_photograph_folder(const fs::path& folder,
                                                    const SmallImages& training,
                                                    const SmallImages& validation,
                                                    std::span<const std::string> class_names,
                                                    const PhotographFolderOptions& options,
                                                    const WriteOptions& write) {
  check(options);
  AtomicFolder output(folder, std::span(split_folders).first(write.replace ? 2 : 0));
  std::vector<std::string> folders;
  for (const auto& name : class_names) folders.push_back(class_folder(std::ssize(folders), name));
  const auto tasks = plan(output.aside() / split_folders[0], training, folders, options.per_class);
  const auto validation_tasks =
      plan(output.aside() / split_folders[1], validation, folders,
           std::max<std::int64_t>(1, options.per_class / training_to_validation));
  const auto total = std::ssize(tasks) + std::ssize(validation_tasks);
  std::atomic<std::int64_t> done = 0;
  const auto write_split = [&](const SmallImages& images, const std::vector<Task>& files,
                               std::uint32_t split) {
    const auto seed = derive_seed(options.seed, photograph_stream, split);
    for_each_index(std::ssize(files), write.threads, [&](std::int64_t number) {
      const auto& [image, file] = files[static_cast<std::size_t>(number)];
      std::array<std::uint8_t, cifar10_pixel_bytes> pixels{};
      images.pixels(image, pixels);
      CounterRandom random(seed, 0, static_cast<std::uint64_t>(number));
      write_file(file, photograph(pixels, random, options.least_side, options.most_side));
      const auto now = ++done;
      if (write.progress) write.progress(now, total);
    });
  };
  write_split(training, tasks, 0);
  write_split(validation, validation_tasks, 1);
  output.commit();
  return {std::ssize(tasks), std::ssize(validation_tasks)};
}

}  // namespace kolo
