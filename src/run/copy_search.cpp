#include "run/copy_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fingerprint.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/checkpoint/local_folder.h"
#include "kolo/parallel/object_collectives.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// What rank 0 knows of the copies that count.
struct Wanted {
  std::string key;
  std::map<std::string, std::int64_t> last_step;  // by the start that made them
  std::int64_t newer_than = 0;
  std::int64_t best_epoch = 0;  // at most; later ones lack their checkpoint
};

Wanted wanted_of(const RunFolder& folder, const std::optional<ResumePoint>& newest) {
  Wanted wanted{copy_key(folder), {}, newest ? newest->step : 0, newest ? newest->epoch : 0};
  auto last = std::numeric_limits<std::int64_t>::max();
  const auto begins = noted_begins(folder.origin());
  for (auto begin = begins.rbegin(); begin != begins.rend(); ++begin) {
    wanted.last_step[begin->id] = last;
    last = std::min(last, begin->from_step);
  }
  return wanted;
}

// Of rank 0's, on all ranks.
Wanted share(const Communicator& communicator, const Wanted& mine) {
  const nlohmann::json document{{"key", mine.key},
                                {"last_step", mine.last_step},
                                {"newer_than", mine.newer_than},
                                {"best_epoch", mine.best_epoch}};
  const auto text = broadcast_bytes(communicator, document.dump());
  const auto found = nlohmann::json::parse(text);
  return {found["key"], found["last_step"], found["newer_than"], found["best_epoch"]};
}

bool counts(const CheckpointStore::Loaded& copy, const Wanted& wanted) {
  const auto& state = copy.content.state;
  const auto start = wanted.last_step.find(state.value(copy_start_key, std::string()));
  return start != wanted.last_step.end() && copy.step <= start->second &&
         copy.step > wanted.newer_than &&
         state.value("best_epoch", std::int64_t{0}) <= wanted.best_epoch;
}

// What a rank has to offer, and what was wrong with what it has not.
struct Offer {
  std::int64_t step = -1;  // none
  std::string problem;
};

// The copies on this node, the newest last.
class CopiesHere {
 public:
  // `looks`: another rank of the node does otherwise.
  CopiesHere(const fs::path& place, const Wanted& wanted, bool looks) {
    const LocalFolder folder(place, wanted.key);
    if (!looks || wanted.key.empty() || !folder.is_ours()) return;
    attempt([&] {
      for (const auto& path : folder.store().folders()) {
        attempt([&] {
          const auto copy = CheckpointStore::load(path, CheckpointReading::headers);
          if (counts(copy, wanted)) steps_.emplace(copy.step, path);
        });
      }
    });
  }

  // Names a problem once.
  [[nodiscard]] Offer offer() {
    return {steps_.empty() ? -1 : steps_.rbegin()->first, std::exchange(problem_, {})};
  }

  // What was offered; none where it turns out to be damaged.
  [[nodiscard]] std::optional<CheckpointStore::Loaded> read() {
    std::optional<CheckpointStore::Loaded> copy;
    const auto path = steps_.rbegin()->second;
    steps_.erase(std::prev(steps_.end()));
    attempt([&] { copy = CheckpointStore::load(path); });
    return copy;
  }

 private:
  template <typename Part>
  void attempt(const Part& part) {
    try {
      part();
    } catch (const std::exception& error) {
      problem_ = fmt::format("resume: passing over a copy on {}: {}", host_name(), error.what());
    }
  }

  std::map<std::int64_t, fs::path> steps_;
  std::string problem_;
};

std::vector<Offer> gather_offers(const Communicator& communicator, const Offer& mine) {
  const nlohmann::json document{{"step", mine.step}, {"problem", mine.problem}};
  const auto texts = all_gather_bytes(
      communicator, document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  std::vector<Offer> offers;
  for (const auto& text : texts) {
    const auto found = nlohmann::json::parse(text);
    offers.push_back({found["step"], found["problem"]});
  }
  return offers;
}

nlohmann::json describe(const std::vector<NamedTensor>& tensors) {
  auto list = nlohmann::json::array();
  for (const auto& item : tensors) {
    list.push_back({{"name", item.name},
                    {"type", static_cast<int>(item.tensor.scalar_type())},
                    {"shape", item.tensor.sizes().vec()}});
  }
  return list;
}

std::vector<NamedTensor> make(const nlohmann::json& list) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : list) {
    const auto shape = item["shape"].get<std::vector<std::int64_t>>();
    const auto type = static_cast<torch::ScalarType>(item["type"].get<int>());
    tensors.push_back({item["name"], torch::empty(shape, type)});
  }
  return tensors;
}

// From rank 1 of two to rank 0. Collective.
CheckpointStore::Loaded hand_over(const Communicator& both,
                                  std::optional<CheckpointStore::Loaded> copy) {
  constexpr int from = 1;
  nlohmann::json document;
  if (copy) {
    document = {{"path", copy->path.string()},
                {"step", copy->step},
                {"state", copy->content.state},
                {"model", describe(copy->content.model)},
                {"optimizer", describe(copy->content.optimizer)}};
  }
  const auto described = nlohmann::json::parse(broadcast_bytes(both, document.dump(), from));
  if (!copy) {
    copy = {described["path"].get<std::string>(),
            described["step"],
            {make(described["model"]), make(described["optimizer"]), described["state"]}};
  }
  for (const auto* const list : {&copy->content.model, &copy->content.optimizer}) {
    for (const auto& item : *list) {
      const auto bytes = narrow<std::int64_t>(item.tensor.nbytes());
      if (bytes > 0)
        both.broadcast(Buffer(item.tensor.data_ptr(), bytes, DataType::uint8), from,
                       {.name = "a copy of the state"});
    }
  }
  return *std::move(copy);
}

}  // namespace

std::string copy_key(const RunFolder& folder) {
  const auto begins = noted_begins(folder.origin());
  std::error_code error;
  const auto path = fs::canonical(folder.path, error);
  if (begins.empty() || error) return {};
  return fmt::format("{:016x}", fingerprint_of(path.string() + '\0' + begins.front().id));
}

bool looks_for_copies(const CheckpointConfig& config, const std::optional<std::string>& resume) {
  return config.enabled && !config.local_folder.empty() && resume == newest_checkpoint;
}

std::optional<FoundCopy> find_copy(const Communicator& communicator, const CheckpointConfig& config,
                                   const RunFolder& folder,
                                   const std::optional<ResumePoint>& newest,
                                   const std::function<void(const std::string&)>& warn) {
  const int rank = communicator.rank();
  const auto wanted = share(communicator, rank == 0 ? wanted_of(folder, newest) : Wanted{});
  CopiesHere here(config.local_folder, wanted, communicator.topology().local_rank == 0);
  while (true) {
    const auto offers = gather_offers(communicator, here.offer());
    if (rank == 0) {
      for (const auto& offer : offers)
        if (!offer.problem.empty()) warn(offer.problem);
    }
    const auto best = std::ranges::max_element(offers, {}, &Offer::step);  // the first of equals
    if (best->step < 0) return std::nullopt;
    const int reader = narrow<int>(best - offers.begin());
    auto copy = rank == reader ? here.read() : std::nullopt;
    const auto host = broadcast_bytes(communicator, copy ? host_name() : "", reader);
    if (host.empty()) continue;
    if (reader > 0) {
      const auto both = communicator.subset(std::array{0, reader});
      if (both) copy = hand_over(*both, std::move(copy));
    }
    if (rank > 0) return std::nullopt;
    return FoundCopy{*std::move(copy), host};
  }
}

}  // namespace kolo
