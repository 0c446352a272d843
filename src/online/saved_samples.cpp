#include "online/saved_samples.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/checks.h"
#include "kolo/sampling/deal_reservoirs.h"
#include "kolo/train/checkpoint/checkpoint.h"
#include "online/shapes_json.h"

namespace kolo {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReservoirState, arrivals, draws, size, seen, first, deals)

}  // namespace kolo

namespace kolo::online {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path samples_file(const fs::path& folder, std::size_t number) {
  return folder / fmt::format("rank-{:05}.safetensors", number);
}

std::string checksum_text(const torch::Tensor& tensor) {
  return fmt::format("{:016x}", checksum_of(tensor));
}

// View of packed samples, which is only read: from_blob() takes no const pointer.
torch::Tensor view_of(std::span<const std::byte> packed, std::int64_t count) {
  const auto bytes = narrow<std::int64_t>(packed.size());
  return torch::from_blob(const_cast<std::byte*>(packed.data()),
                          {count, count == 0 ? 0 : bytes / count}, torch::kByte);
}

// Saved samples of one rank.
struct SavedSamples {
  torch::Tensor contents, order;  // uint8 [samples, bytes]; int64 [...]
  torch::Tensor held;             // as contents; undefined if there were none

  [[nodiscard]] std::span<const std::int64_t> order_span() const {
    return {order.data_ptr<std::int64_t>(), static_cast<std::size_t>(order.numel())};
  }
};

SavedSamples read_file(const fs::path& file, const json& state) {
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

void append(PackedSamples& samples, const torch::Tensor& more) {
  if (!more.defined()) return;
  const auto* const first = static_cast<const std::byte*>(more.data_ptr());
  samples.bytes.insert(samples.bytes.end(), first, first + more.numel());
  samples.count += more.size(0);
}

SampleShapes shapes_of(const json& state) {
  return state.at("shapes").get<SampleShapes>();
}

RestoredSamples own_samples(const SavedSamples& saved, const json& state,
                            const SampleStore& store) {
  const auto shapes = shapes_of(state);
  Reservoir reservoir(store.options_for(shapes));
  const auto memory =
      reservoir.restore(state.at("state").get<ReservoirState>(), saved.order_span());
  std::memcpy(memory.data(), saved.contents.data_ptr(), memory.size());
  return {shapes, std::move(reservoir), {}};
}

// `all`: of each rank that saved; undefined tensors of one without samples.
RestoredSamples dealt_samples(std::span<const SavedSamples> all,
                              std::span<const SavedReservoir> saved, const SampleShapes& shapes,
                              int ranks, const SampleStore& store) {
  const auto options = store.options_for(shapes);
  const auto dealt = deal_reservoirs(saved, options, ranks);
  Reservoir reservoir(options);
  auto memory = reservoir.restore(dealt.state);
  const auto bytes = shapes.packed_bytes();
  for (const auto& sample : dealt.samples) {
    const auto& from = all[static_cast<std::size_t>(sample.rank)].contents;
    std::memcpy(memory.data(),
                static_cast<const std::byte*>(from.data_ptr()) +
                    static_cast<std::size_t>(sample.slot) * bytes,
                bytes);
    memory = memory.subspan(bytes);
  }
  return {shapes, std::move(reservoir), {}};
}

}  // namespace

json write_samples(const fs::path& folder, int number, const SampleStore& store,
                   const PackedSamples& held) {
  const auto* const reservoir = store.reservoir();
  if (reservoir == nullptr) return nullptr;
  const auto order = reservoir->order();
  const auto& state = reservoir->state();
  const auto samples = view_of(reservoir->contents(), state.size);
  const auto slots = torch::from_blob(const_cast<std::int64_t*>(order.data()),
                                      {narrow<std::int64_t>(order.size())}, torch::kLong);
  std::vector<NamedTensor> tensors{{"samples", samples}, {"order", slots}};
  json saved = {
      {"state", state}, {"shapes", *store.shapes()}, {"checksum", checksum_text(samples)}};
  if (held.count > 0) {
    tensors.push_back({"held", view_of(held.bytes, held.count)});
    saved["held"] = checksum_text(tensors.back().tensor);
  }
  std::error_code error;
  fs::create_directories(folder, error);
  write_safetensors(samples_file(folder, static_cast<std::size_t>(number)), tensors);
  return saved;
}

std::optional<RestoredSamples> read_samples(const fs::path& folder, const json& states, int number,
                                            int ranks, const SampleStore& store) {
  const auto mine = static_cast<std::size_t>(number);
  if (std::cmp_equal(states.size(), ranks)) {
    const auto& state = states.at(mine);
    if (state.is_null()) return std::nullopt;
    const auto saved = read_file(samples_file(folder, mine), state);
    auto restored = own_samples(saved, state, store);
    append(restored.held, saved.held);
    return restored;
  }
  std::vector<SavedSamples> all(states.size());
  std::vector<SavedReservoir> saved(states.size());
  std::optional<SampleShapes> shapes;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto& state = states.at(i);
    if (state.is_null()) continue;
    all[i] = read_file(samples_file(folder, i), state);
    saved[i] = {state.at("state").get<ReservoirState>(), all[i].order_span()};
    shapes = shapes_of(state);
  }
  if (!shapes) return std::nullopt;
  auto restored = dealt_samples(all, saved, *shapes, ranks, store);
  for (auto i = mine; i < all.size(); i += static_cast<std::size_t>(ranks))
    append(restored.held, all[i].held);
  return restored;
}

}  // namespace kolo::online
