#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/sampling/deal_reservoirs.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "kolo/train/checkpoint/checkpoint_store.h"
#include "online/inside.h"
#include "online/shapes_json.h"

// Files of a network. folder/step-TAG is a checkpoint of CheckpointStore, written by the first
// training rank. Each training rank writes folder/reservoirs-TAG-NAME/rank-00000.safetensors. The
// checkpoint names that folder and is written after it, so a checkpoint that exists is whole.
namespace kolo {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReservoirState, arrivals, draws, size, seen, first, deals)

using namespace online;  // NOLINT: what this class is made of

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

CheckpointStore store_in(const fs::path& folder) {
  return CheckpointStore({.folder = folder, .keep_last = std::numeric_limits<int>::max()});
}

fs::path reservoir_file(const fs::path& folder, std::size_t rank) {
  return folder / fmt::format("rank-{:05}.safetensors", rank);
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

// Saved samples of one rank.
struct SavedSamples {
  torch::Tensor contents, order;  // uint8 [samples, bytes]; int64 [...]
  torch::Tensor held;             // as contents; undefined if there were none

  [[nodiscard]] std::span<const std::int64_t> order_span() const {
    return {order.data_ptr<std::int64_t>(), static_cast<std::size_t>(order.numel())};
  }
};

std::string checksum_text(const torch::Tensor& tensor) {
  return fmt::format("{:016x}", checksum_of(tensor));
}

SavedSamples read_samples(const fs::path& file, const json& state) {
  SavedSamples samples;
  for (auto& item : read_safetensors(file)) {
    auto& tensor = item.name == "order"  ? samples.order
                   : item.name == "held" ? samples.held
                                         : samples.contents;
    tensor = std::move(item.tensor);
  }
  const auto is_as_saved = [&](const torch::Tensor& tensor, const char* key) {
    return tensor.defined() == state.contains(key) &&
           (!tensor.defined() || checksum_text(tensor) == state.at(key).get<std::string>());
  };
  if (!samples.order.defined() || !is_as_saved(samples.contents, "checksum") ||
      !is_as_saved(samples.held, "held")) {
    throw Error(
        fmt::format("online: restore: {} is damaged: its checksum is another than it was "
                    "when it was saved",
                    file.string()));
  }
  return samples;
}

// View of packed samples, which is only read: from_blob() takes no const pointer.
torch::Tensor view_of(std::span<const std::byte> packed, std::int64_t count) {
  const auto bytes = narrow<std::int64_t>(packed.size());
  return torch::from_blob(const_cast<std::byte*>(packed.data()),
                          {count, count == 0 ? 0 : bytes / count}, torch::kByte);
}

void append(PackedSamples& samples, const torch::Tensor& more) {
  if (!more.defined()) return;
  const auto* const first = static_cast<const std::byte*>(more.data_ptr());
  samples.bytes.insert(samples.bytes.end(), first, first + more.numel());
  samples.count += more.size(0);
}

}  // namespace

json OnlineNetwork::Inside::save_reservoir(const fs::path& folder) const {
  const auto* const reservoir = store_.reservoir();
  if (reservoir == nullptr || !config_.checkpoint.reservoir) return nullptr;
  const auto contents = reservoir->contents();
  const auto order = reservoir->order();
  const auto& state = reservoir->state();
  const auto samples = view_of(contents, state.size);
  const auto slots = torch::from_blob(const_cast<std::int64_t*>(order.data()),
                                      {narrow<std::int64_t>(order.size())}, torch::kLong);
  std::error_code error;
  fs::create_directories(folder, error);
  std::vector<NamedTensor> tensors{{"samples", samples}, {"order", slots}};
  json saved = {
      {"state", state}, {"shapes", *store_.shapes()}, {"checksum", checksum_text(samples)}};
  if (held_.count > 0) {
    tensors.push_back({"held", view_of(held_.bytes, held_.count)});
    saved["held"] = checksum_text(tensors.back().tensor);
  }
  write_safetensors(reservoir_file(folder, static_cast<std::size_t>(trainers_->rank())), tensors);
  return saved;
}

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
    if (roles_.trains)
      mine = {{"reservoir", save_reservoir(folder / name)},
              {"normalizer", normalizer_.state(store_)}};
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
    samples =
        read_reservoir(folder / state.at("reservoirs").get<std::string>(), state.at("ranks"));
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

auto OnlineNetwork::Inside::read_reservoir(const fs::path& folder, const json& states) const
    -> std::optional<RestoredSamples> {
  const auto shapes_of = [](const json& each) { return each.at("shapes").get<SampleShapes>(); };
  const auto rank = static_cast<std::size_t>(trainers_->rank());
  if (narrow<int>(states.size()) == trainers_->size()) {
    const auto& mine = states.at(rank).at("reservoir");
    if (mine.is_null()) return std::nullopt;
    const auto samples = read_samples(reservoir_file(folder, rank), mine);
    const auto shapes = shapes_of(mine);
    Reservoir reservoir(store_.options_for(shapes));
    const auto memory =
        reservoir.restore(mine.at("state").get<ReservoirState>(), samples.order_span());
    std::memcpy(memory.data(), samples.contents.data_ptr(), memory.size());
    RestoredSamples restored{shapes, std::move(reservoir), {}};
    append(restored.held, samples.held);
    return restored;
  }
  std::vector<SavedSamples> all;
  std::vector<SavedReservoir> saved;
  std::optional<SampleShapes> shapes;
  all.reserve(states.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto& each = states.at(i).at("reservoir");
    if (each.is_null()) {
      all.emplace_back();
      saved.push_back({});
      continue;
    }
    all.push_back(read_samples(reservoir_file(folder, i), each));
    saved.push_back({each.at("state").get<ReservoirState>(), all.back().order_span()});
    shapes = shapes_of(each);
  }
  if (!shapes) return std::nullopt;
  const auto options = store_.options_for(*shapes);
  const auto dealt = deal_reservoirs(saved, options, trainers_->size());
  Reservoir reservoir(options);
  auto memory = reservoir.restore(dealt.state);
  const auto bytes = shapes->packed_bytes();
  for (const auto& sample : dealt.samples) {
    const auto& from = all[static_cast<std::size_t>(sample.rank)].contents;
    std::memcpy(memory.data(),
                static_cast<const std::byte*>(from.data_ptr()) +
                    static_cast<std::size_t>(sample.slot) * bytes,
                bytes);
    memory = memory.subspan(bytes);
  }
  RestoredSamples restored{*shapes, std::move(reservoir), {}};
  const auto ranks = static_cast<std::size_t>(trainers_->size());
  for (auto i = rank; i < all.size(); i += ranks) append(restored.held, all[i].held);
  return restored;
}

}  // namespace kolo
