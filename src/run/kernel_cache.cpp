#include "run/kernel_cache.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <nlohmann/json.hpp>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/nn/convolution.h"
#include "kolo/observe/format.h"
#include "kolo/parallel/object_collectives.h"
#include "run/pipeline_share.h"
#include "run/run_device.h"

namespace kolo {

namespace {

std::optional<std::filesystem::path> cache_folder() {
  const auto set = [](const char* name) -> std::optional<std::filesystem::path> {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
  if (const auto folder = set("XDG_CACHE_HOME")) return *folder / "kolo";
  if (const auto home = set("HOME")) return *home / ".cache" / "kolo";
  return std::nullopt;
}

[[noreturn]] void throw_system_error(const char* what, const std::filesystem::path& path) {
  const int error = errno;
  throw Error(system_error_text(fmt::format("{} {}", what, path.string()), error));
}

// Held until the object is gone, by no other process.
class FileLock {
 public:
  // `waits`: as KernelCache::update() has it.
  FileLock(const std::filesystem::path& path, const std::function<bool()>& waits)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (!file_.is_open()) throw_system_error("run: cannot open", path);
    while (!(is_held_ = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0)) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw_system_error("run: cannot lock", path);
      if (!waits()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  [[nodiscard]] bool is_held() const { return is_held_; }

 private:
  FileDescriptor file_;
  bool is_held_ = false;
};

std::string with_dashes(const std::string& text) {
  std::string result;
  for (const char character : text) {
    const auto letter = static_cast<unsigned char>(character);
    if (std::isalnum(letter) != 0) {
      result += static_cast<char>(std::tolower(letter));
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (result.ends_with('-')) result.pop_back();
  return result;
}

std::string cpuinfo() {
  try {
    return read_text_file("/proc/cpuinfo");
  } catch (const Error&) {
    return {};
  }
}

nlohmann::ordered_json versions() {
  return {{"kolo", KOLO_VERSION}, {"onednn", onednn_description()}};
}

}  // namespace

std::string processor_name(const std::string& cpuinfo) {
  std::string name, family, model;
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto key = with_dashes(line.substr(0, colon)), value = line.substr(colon + 1);
    if (key == "model-name") name = value;
    if (key == "cpu-family") family = value;
    if (key == "model") model = value;
  }
  const auto result = with_dashes(fmt::format("{} {} {}", name, family, model));
  return result.empty() ? "processor" : result;
}

std::string processor_name() {
  return processor_name(cpuinfo());
}

std::optional<KernelCache> KernelCache::of_this_processor() {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  return KernelCache(*folder / fmt::format("kernels-{}.json", processor_name()));
}

KernelChoices KernelCache::read() const {
  try {
    if (!std::filesystem::exists(file_)) return {};
    const auto content = nlohmann::ordered_json::parse(read_text_file(file_));
    if (content.at("made by") != versions()) return {};
    return kernel_choices_from_json(content.at("kernels").dump());
  } catch (const std::exception&) {  // it is only a cache
    return {};
  }
}

void KernelCache::update(const std::function<void(KernelChoices&)>& change,
                         const std::function<bool()>& waits) const {
  std::filesystem::create_directories(file_.parent_path());
  auto lock_file = file_;
  const FileLock lock(lock_file.replace_extension(".lock"), waits);
  if (!lock.is_held()) return;
  auto choices = read();
  const auto before = choices;
  change(choices);
  if (choices == before) return;
  const nlohmann::ordered_json content = {
      {"made by", versions()}, {"kernels", nlohmann::ordered_json::parse(to_json(choices))}};
  write_file_atomically(file_, content.dump(2) + "\n");
}

namespace {

// Of what goes through the network at a time: a rank's batch, or a part of it.
std::vector<std::int64_t> batch_shape_of(const RunConfig& config, const Datasets& datasets,
                                         int ranks) {
  auto shape = datasets.training->layout().input_shape;
  const auto replicas = replicas_of(config, ranks);
  const auto parts = micro_batches_of(config, ranks) * config.training.accumulation;
  const auto batch = std::min<std::int64_t>(batch_size_of(config.training, replicas) / parts,
                                            datasets.training->size() / replicas);
  shape.insert(shape.begin(), std::max<std::int64_t>(batch, 1));
  return shape;
}

bool wants_choices(const RunConfig& config) {
  return config.training.kernels == KernelSelection::measured && !wants_gpu(config.device) &&
         !config.device.deterministic;
}

KernelChoices completed(const KernelChoices& known, const KernelQuestion& question, int ranks) {
  constexpr double often = 15;  // seconds between messages
  bool has_tried = false;
  const Stopwatch watch;
  double last = 0;
  auto found = measure_kernels(
      question.network, batch_shape_of(question.config, question.datasets, ranks),
      question.config.training.precision, known,
      [&](std::size_t done, std::size_t count) {
        if (!std::exchange(has_tried, true)) {
          question.say(
              fmt::format("trying the kernels of {} convolution{} that {} new on this processor",
                          count, count == 1 ? "" : "s", count == 1 ? "is" : "are"));
        } else if (watch.seconds() - last > often) {
          last = watch.seconds();
          question.say(fmt::format("tried {} of {} in {}", done, count, format_duration(last)));
        }
      },
      question.stop_requested);
  if (has_tried) {
    question.say(fmt::format("{} in {}",
                             question.stop_requested() ? "asked to stop while trying" : "tried",
                             format_duration(watch.seconds())));
  }
  return found;
}

// What is kept, but for what the run has chosen itself.
KernelChoices with_own(const KernelQuestion& question, const KernelChoices& kept) {
  auto known = question.own;
  known.insert(kept.begin(), kept.end());
  return known;
}

KernelChoices measured(const KernelQuestion& question, int ranks) {
  auto result = question.own;
  try {
    const auto cache = KernelCache::of_this_processor();
    if (!cache) throw Error("there is no home folder to keep in which was the fastest");
    const auto shape = batch_shape_of(question.config, question.datasets, ranks);
    // Who has nothing to try waits for nobody.
    if (auto known = known_kernels(question.network, shape, question.config.training.precision,
                                   with_own(question, cache->read())))
      return *std::move(known);
    bool has_said = false;
    const auto waits = [&] {
      if (!std::exchange(has_said, true))
        question.say("another process tries kernels: waiting for what it finds");
      return !question.stop_requested();
    };
    cache->update(
        [&](KernelChoices& kept) {
          result = completed(with_own(question, kept), question, ranks);
          kept.insert(result.begin(), result.end());
        },
        waits);
  } catch (const std::exception& error) {
    question.warn(
        fmt::format("kernels of convolutions: {}; the usual ones are taken "
                    "(training.kernels: usual)",
                    error.what()));
  }
  return result;
}

}  // namespace

std::shared_ptr<const KernelChoices> choose_kernels(const KernelQuestion& question,
                                                    const Communicator& communicator) {
  if (!wants_choices(question.config)) return nullptr;
  std::string text;
  if (communicator.rank() == 0) text = to_json(measured(question, communicator.size()));
  return std::make_shared<const KernelChoices>(kernel_choices_from_json(
      broadcast_bytes(communicator, text, 0, {.name = "choices of kernels"})));
}

KernelChoices renew_kernels(const KernelQuestion& question, int ranks, const KernelCache& cache) {
  const auto found = completed({}, question, ranks);
  cache.update([&](KernelChoices& kept) {
    for (const auto& [convolution, choice] : found) kept[convolution] = choice;
  });
  return found;
}

}  // namespace kolo
