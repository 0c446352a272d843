#include <cstdio>
#include <limits>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "online/inside.h"
#include "online/saved_samples.h"

// Files of a network. folder/step-TAG is a checkpoint of CheckpointStore, written by the first
// training rank. Each training rank writes folder/reservoirs-TAG-NAME/rank-00000.safetensors. The
// checkpoint names that folder and is written after it, so a checkpoint that exists is whole.
namespace kolo {

using namespace online;  // NOLINT: what this class is made of

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

CheckpointStore store_in(const fs::path& folder) {
  return CheckpointStore({.folder = folder, .keep_last = std::numeric_limits<int>::max()});
}

// Unique name, so that an interrupted save harms no earlier one.
std::string reservoirs_name(std::int64_t tag) {
  std::random_device device;
  return fmt::format("reservoirs-{:08}-{:08x}", tag, device());
}

// Tag of a folder of reservoirs; none for others.
std::optional<std::int64_t> tag_of(const fs::path& path) {
  long long tag = 0;
  int end = 0;
  (void)std::sscanf(path.filename().c_str(), "reservoirs-%lld-%n", &tag, &end);
  return end > 0 ? std::optional<std::int64_t>(tag) : std::nullopt;
}

template <typename Predicate>
void remove_reservoirs(const fs::path& folder, const Predicate& is_superfluous) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const auto tag = tag_of(entry.path());
    if (tag && is_superfluous(*tag, entry.path().filename().string()))
      found.push_back(entry.path());
  }
  for (const auto& path : found) fs::remove_all(path, ignored);
}

}  // namespace

void OnlineNetwork::Inside::require_one_place(const Call& call, const fs::path& folder,
                                              std::int64_t tag) const {
  const auto& ranks = config_.training.apart ? *computing_ : ranks_;
  agree(ranks, call, [&] {
    if (tag < 0) refuse(call, "tag", fmt::format("it is {}; expected 0 or more", tag));
    if (folder.empty()) refuse(call, "folder", "it is empty");
  });
  require_same(ranks, call, "folder and tag", fmt::format("\"{}\" and {}", folder.string(), tag));
}

void OnlineNetwork::Inside::save(const fs::path& folder, std::int64_t tag) {
  const auto here = call("save");
  require_computing(here);
  require_one_place(here, folder, tag);
  if (config_.training.apart) {
    ask(here, Letter::Kind::save, tag, folder.string());
    return receive_answer(here);
  }
  const auto was_on = all_reduce_value(ranks_, background_ ? 1 : 0, ReduceOp::max) == 1;
  if (was_on) pause();
  pass_samples(here);
  save_on(ranks_, folder, tag);
  if (was_on) start();
}

// First training rank's number in a communicator of all ranks, or of the training ranks.
int OnlineNetwork::Inside::first_trainer_in(const Communicator& ranks) const {
  const bool are_trainers = ranks.size() == narrow<int>(roles_.trainers.size());
  return are_trainers ? 0 : roles_.trainers.front();
}

void OnlineNetwork::Inside::save_on(const Communicator& ranks, const fs::path& folder,
                                    std::int64_t tag) {
  const auto here = call("save");
  const bool is_first = roles_.trains && trainers_->rank() == 0;
  const int first = first_trainer_in(ranks);
  const auto name = broadcast_bytes(ranks, is_first ? reservoirs_name(tag) : "", first);
  json mine;
  agree(ranks, here, [&] {
    if (roles_.trains) mine = {{"reservoir", nullptr}, {"normalizer", normalizer_.state(store_)}};
    if (roles_.trains && config_.checkpoint.reservoir)
      mine["reservoir"] = write_samples(folder / name, trainers_->rank(), store_, held_);
  });
  std::vector<std::string> all;
  if (roles_.trains) all = all_gather_bytes(*trainers_, mine.dump());
  agree(ranks, here, [&] {
    if (!is_first) return;
    auto checkpoint = trainer_->checkpoint();
    checkpoint.state["kind"] = "online";
    checkpoint.state["ticks"] = ticks_;
    checkpoint.state["time_step"] = time_step_;
    checkpoint.state["reservoirs"] = name;
    for (const auto& text : all) checkpoint.state["ranks"].push_back(json::parse(text));
    (void)store_in(folder).save(tag, checkpoint, false);
    remove_reservoirs(folder, [&](std::int64_t of, const std::string& found) {
      return of == tag && found != name;
    });
    if (recorder_) recorder_->flush();
  });
}

void OnlineNetwork::Inside::restore(const fs::path& folder, std::int64_t tag) {
  const auto here = call("restore");
  require_computing(here);
  require_one_place(here, folder, tag);
  if (config_.training.apart) {
    ask(here, Letter::Kind::restore, tag, folder.string());
    receive_answer(here);
    (void)refresh();
    return;
  }
  agree(ranks_, here, [&] { require_foreground(here); });
  restore_on(ranks_, folder, tag);
  tell_held();
  publish();
}

void OnlineNetwork::Inside::restore_on(const Communicator& ranks, const fs::path& folder,
                                       std::int64_t tag) {
  const auto here = call("restore");
  const bool is_first = roles_.trains && trainers_->rank() == 0;
  std::optional<Checkpoint> saved;
  agree(ranks, here, [&] {
    if (!is_first) return;
    const auto path = folder / fmt::format("step-{:08}", tag);
    if (!fs::exists(path))
      refuse(here, "tag",
             fmt::format("there is no {}; what is there is named after the tags of "
                         "save()",
                         path.string()));
    saved = CheckpointStore::load(path).content;
    if (saved->state.value("kind", std::string()) != "online") {
      refuse(here, "folder",
             fmt::format("{} is no checkpoint of a network inside a simulation", path.string()));
    }
    trainer_->require_fitting(*saved);
  });
  const auto state = json::parse(
      broadcast_bytes(ranks, saved ? saved->state.dump() : "", first_trainer_in(ranks)));
  // Reads what may be refused before anything is changed.
  std::optional<RestoredSamples> samples;
  agree(ranks, here, [&] {
    if (!roles_.trains) return;
    json states = json::array();
    for (const auto& each : state.at("ranks")) states.push_back(each.at("reservoir"));
    samples = read_samples(folder / state.at("reservoirs").get<std::string>(), states,
                           trainers_->rank(), trainers_->size(), store_);
  });
  {
    const auto lock = inference_->changes();
    if (trainer_) trainer_->restore(saved);
  }
  agree(ranks, here, [&] {
    ticks_ = state.at("ticks").get<std::int64_t>();
    time_step_ = state.at("time_step").get<std::int64_t>();
    waiting_ = {};
    if (!roles_.trains) return;
    progress_ = trainer_->progress();
    held_ = samples ? std::move(samples->held) : PackedSamples{};
    store_.restore(std::move(samples));
    json of_normalizers = json::array();
    for (const auto& each : state.at("ranks")) of_normalizers.push_back(each.at("normalizer"));
    normalizer_.restore(of_normalizers, trainers_->rank(), trainers_->size(), store_);
    if (recorder_) recorder_->go_back_to(progress_.all_steps);
  });
  agree(ranks, here, [&] {
    if (!is_first) return;
    store_in(folder).remove_after(tag);
    remove_reservoirs(folder, [&](std::int64_t of, const std::string&) { return of > tag; });
  });
}

}  // namespace kolo
