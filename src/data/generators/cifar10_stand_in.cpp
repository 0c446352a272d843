#include "kolo/data/cifar10_stand_in.h"

#include <atomic>
#include <string>

#include <fmt/format.h>

#include "data/generators/for_each_index.h"
#include "data/generators/stand_in_painter.h"
#include "kolo/base/error.h"
#include "kolo/base/folder.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// Sets the generator's numbers apart from those that training draws with the same seed.
constexpr std::uint32_t stand_in_stream = 0x57A2D121;
enum Stream : std::uint32_t { image_stream, order_stream };
constexpr std::int64_t progress_step = 16;  // images

// The first images of each class, in the source's order.
std::vector<std::int64_t> first_of_each_class(const std::vector<std::uint8_t>& labels,
                                              std::int64_t per_class, const fs::path& source) {
  std::vector<std::int64_t> chosen;
  std::array<std::int64_t, cifar10_classes> counts{};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (++counts[labels[i]] <= per_class) chosen.push_back(static_cast<std::int64_t>(i));
  }
  for (std::size_t label = 0; label < counts.size(); ++label) {
    if (counts[label] >= per_class) continue;
    throw InputError(
        fmt::format("data: {} images of class {} asked for, but the training split in {} has {}",
                    per_class, label, source.string(), counts[label]));
  }
  return chosen;
}

void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed) {
  CounterRandom random(seed, order_stream, 0);
  for (auto left = static_cast<std::uint32_t>(order.size()); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
}

struct Garment {
  std::vector<float> values;
  std::uint8_t label = 0;
};

Garment read_garment(const MnistDataset& source, std::int64_t index) {
  Garment garment{std::vector<float>(garment_side * garment_side)};
  std::int64_t label = 0;
  source.read(index, 0, {garment.values, {&label, 1}, {}});
  garment.label = static_cast<std::uint8_t>(label);
  return garment;
}

MnistDataset open_source(const fs::path& folder, Split split) {
  MnistDataset source(folder, split, {0, 1});
  const auto& shape = source.layout().input_shape;
  if (shape[1] == garment_side && shape[2] == garment_side) return source;
  throw InputError(fmt::format("data: the images in {} are {} x {}, expected 28 x 28",
                               folder.string(), shape[1], shape[2]));
}

// Writes one batch file; calls `painted` after each image, from any thread.
void write_batch(const fs::path& file, const StandInImages& images, std::int64_t first,
                 std::int64_t count, int threads, const std::function<void()>& painted) {
  std::vector<std::uint8_t> records(static_cast<std::size_t>(count) * cifar10_record_bytes);
  for_each_index(count, threads, [&](std::int64_t i) {
    const auto record = std::span(records).subspan(
        static_cast<std::size_t>(i) * cifar10_record_bytes, cifar10_record_bytes);
    record[0] = images.label(first + i);
    images.paint(first + i, record.subspan(1));
    painted();
  });
  AtomicFile output(file);
  output.write(std::as_bytes(std::span(records)));
  output.commit();
}

void write_split(const fs::path& folder, const StandInImages& images, Split split, int threads,
                 const std::function<void()>& painted) {
  const auto files = cifar10_batch_files(split);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto first = images.size() * static_cast<std::int64_t>(i) / std::ssize(files);
    const auto last = images.size() * static_cast<std::int64_t>(i + 1) / std::ssize(files);
    write_batch(folder / files[i], images, first, last - first, threads, painted);
  }
}

std::vector<std::string_view> entries_of_cifar10() {
  std::vector<std::string_view> entries = {cifar10_names_file};
  for (const auto split : {Split::train, Split::validation}) {
    const auto files = cifar10_batch_files(split);
    entries.insert(entries.end(), files.begin(), files.end());
  }
  return entries;
}

}  // namespace

StandInImages::StandInImages(const StandInOptions& options, Split split)
    : source_(open_source(options.source, split)),
      seed_(derive_seed(options.seed, stand_in_stream, split == Split::train ? 0 : 1)) {
  if (options.per_class < 1) {
    throw InputError(
        fmt::format("data: {} images of each class: expected at least 1", options.per_class));
  }
  for (std::int64_t i = 0; i < source_.size(); ++i) {
    labels_.push_back(read_garment(source_, i).label);
    order_.push_back(i);
  }
  if (split == Split::validation) return;
  order_ = first_of_each_class(labels_, options.per_class, options.source);
  shuffle(order_, seed_);
}

std::uint8_t StandInImages::label(std::int64_t index) const {
  return labels_[static_cast<std::size_t>(order_.at(static_cast<std::size_t>(index)))];
}

void StandInImages::paint(std::int64_t index, std::span<std::uint8_t> pixels) const {
  if (pixels.size() != cifar10_pixel_bytes) {
    throw Error(
        fmt::format("data: an image of 3072 bytes does not fit a place for {}", pixels.size()));
  }
  CounterRandom random(seed_, image_stream, static_cast<std::uint64_t>(index));
  const auto place = order_.at(static_cast<std::size_t>(index));
  std::vector<float> distractor;
  if (random.uniform() < .5F) {
    const auto other = random.below(static_cast<std::uint32_t>(order_.size()));
    distractor = read_garment(source_, order_[other]).values;
  }
  paint_stand_in(read_garment(source_, place).values, distractor, random, pixels);
}

std::array<std::int64_t, 2> write_cifar10_stand_in(const fs::path& folder,
                                                   const StandInOptions& stand_in,
                                                   const WriteOptions& options) {
  const auto replaceable = entries_of_cifar10();
  AtomicFolder output(folder,
                      options.replace ? std::span(replaceable) : std::span(replaceable).first(0));
  const StandInImages training(stand_in, Split::train), validation(stand_in, Split::validation);
  std::atomic<std::int64_t> done = 0;
  const auto painted = [&, total = training.size() + validation.size()] {
    const auto now = ++done;
    if (options.progress && now % progress_step == 0) options.progress(now, total);
  };
  write_split(output.aside(), training, Split::train, options.threads, painted);
  write_split(output.aside(), validation, Split::validation, options.threads, painted);
  std::string names;
  for (const auto name : fashion_mnist_names) names.append(name).append("\n");
  write_file_atomically(output.aside() / cifar10_names_file, names);
  output.commit();
  return {training.size(), validation.size()};
}

}  // namespace kolo
