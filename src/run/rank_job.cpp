#include "run/rank_job.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/fingerprint.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/comm/processes.h"
#include "kolo/config/derived_settings.h"
#include "kolo/parallel/object_collectives.h"
#include "run/launch/terminal.h"
#include "run/rank_guard.h"

namespace kolo {

namespace {

// Memory of GPUs is never handed to MPI. Where modules of a site ask Cray MPICH to take it,
// MPI_Init ends programs that aren't linked with its GPU library.
void leave_gpu_memory_to_kolo() {
  const char* const kept = std::getenv("KOLO_MPICH_GPU");
  if (std::getenv("MPICH_GPU_SUPPORT_ENABLED") != nullptr && !(kept != nullptr && *kept == '1'))
    setenv("MPICH_GPU_SUPPORT_ENABLED", "0", /*overwrite=*/1);
}

Communicator join_ranks(const CommunicationConfig& config) {
  leave_gpu_memory_to_kolo();
  auto options = make_mpi_options(config);
  if (config.launcher != LauncherChoice::mpi) options.launcher_check = LauncherCheck::likely;
  return job_communicator(options);
}

// How a rank's preparation ended.
struct Outcome {
  int status = 0;
  std::string message;  // of a failure
  std::vector<RankFact> facts;
};

template <typename Step>
Outcome attempt(const Step& step) {
  try {
    return {0, {}, step()};
  } catch (const std::exception& error) {
    return {exit_status_of(error), message_of(error), {}};
  } catch (...) {
    return {exit_failed, "an exception of unknown type", {}};
  }
}

// Every rank's text, by rank. Collective.
std::vector<std::string> gather_texts(const Communicator& communicator, const std::string& mine) {
  const auto size = static_cast<std::size_t>(communicator.size());
  const auto length = narrow<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(size);
  communicator.all_gather(std::span(&length, 1), std::span(lengths), {.name = "length of texts"});
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::string padded = mine, all(checked_multiply(longest, size), '\0');
  padded.resize(longest);
  if (longest > 0) {
    communicator.all_gather(
        ConstBuffer(padded.data(), narrow<std::int64_t>(longest), DataType::uint8),
        Buffer(all.data(), narrow<std::int64_t>(all.size()), DataType::uint8), {.name = "texts"});
  }
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < size; ++rank)
    texts.push_back(all.substr(rank * longest, static_cast<std::size_t>(lengths[rank])));
  return texts;
}

// Who speaks where several ranks of a node fail: the first that asks, in memory that they share.
class Speaker {
 public:
  // Collective.
  explicit Speaker(const Communicator& communicator)
      : memory_(communicator.allocate_for_node(sizeof(Flag))) {
    if (memory_ && communicator.topology().local_rank == 0) std::construct_at(flag(), 0);
    communicator.barrier();
  }

  // True for one of them, or for all where they share none.
  [[nodiscard]] bool may_speak() const { return !memory_ || flag()->exchange(1) == 0; }

 private:
  using Flag = std::atomic<std::int32_t>;
  static_assert(Flag::is_always_lock_free);

  [[nodiscard]] Flag* flag() const { return reinterpret_cast<Flag*>(memory_.get()); }

  std::shared_ptr<std::byte> memory_;
};

// Each rank's status and whether its facts are the others'. Collective; but a rank that has failed
// does not wait for ever for those that still prepare.
std::vector<std::int64_t> gather_statuses(const Communicator& communicator, const Outcome& outcome,
                                          const Speaker& speaker) {
  struct Exchange {
    std::int64_t mine = 0;
    std::vector<std::int64_t> all;
  };
  const auto exchange = std::make_shared<Exchange>();
  exchange->mine = outcome.status;
  exchange->all.resize(static_cast<std::size_t>(communicator.size()));
  const Work work =
      communicator.all_gather_async(std::span(&exchange->mine, 1), std::span(exchange->all),
                                    {.name = "preparation", .owner = exchange});
  const auto patience = std::chrono::seconds(2) + head_start_of_lower_ranks(communicator.rank());
  if (outcome.status != 0 && !work.wait_for(patience)) {
    constexpr std::chrono::seconds time_to_end_all{10};
    if (speaker.may_speak() || !work.wait_for(time_to_end_all))
      end_job(communicator, outcome.message, outcome.status);
  }
  work.wait();
  return exchange->all;
}

// What the failed ranks have to say: each message once.
void report_failures(const std::vector<std::int64_t>& statuses,
                     const std::vector<std::string>& texts) {
  constexpr std::size_t most_messages = 8;
  std::vector<std::string> messages;
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    if (statuses[rank] == 0) continue;
    const auto message = nlohmann::json::parse(texts[rank])["message"].get<std::string>();
    if (ranks_of[message].empty()) messages.push_back(message);
    ranks_of[message].push_back(rank);
  }
  if (messages.size() == 1 && ranks_of[messages[0]].size() == statuses.size())
    return complain(messages[0]);
  for (std::size_t i = 0; i < std::min(messages.size(), most_messages); ++i) {
    const auto& ranks = ranks_of[messages[i]];
    const auto first =
        nlohmann::json::parse(texts[ranks[0]])["rank"].get<std::string>();  // "rank 1 (on node2)"
    const auto others =
        ranks.size() == 1 ? std::string() : fmt::format(" and {} more", ranks.size() - 1);
    complain(fmt::format("{}{}: {}", first, others, messages[i]));
  }
  if (messages.size() > most_messages)
    complain(fmt::format("and {} more messages of other ranks", messages.size() - most_messages));
}

std::vector<RankFact> facts_in(const nlohmann::json& document) {
  std::vector<RankFact> facts;
  for (const auto& fact : document["facts"]) facts.push_back({fact[0], fact[1]});
  return facts;
}

std::string in_short(const std::string& value) {
  constexpr std::size_t longest = 200;
  if (value.empty()) return "nothing";
  return value.size() <= longest ? value : value.substr(0, longest) + "...";
}

// Says which fact is the first that isn't rank 0's.
std::string difference(const std::vector<std::string>& texts) {
  const auto first = nlohmann::json::parse(texts[0]);
  const std::string said = "the ranks have not been given the same";
  const std::string advice = "all nodes need the same configuration, data and program";
  const auto expected = facts_in(first);
  for (const auto& text : texts) {
    if (text == texts[0]) continue;
    const auto document = nlohmann::json::parse(text);
    const auto found = facts_in(document);
    for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
      const auto here = i < expected.size() ? expected[i] : RankFact{};
      const auto there = i < found.size() ? found[i] : RankFact{};
      if (here.name == there.name && here.value == there.value) continue;
      return fmt::format("{}: {} is {} for {}, but {} for {}; {}", said,
                         here.name.empty() ? there.name : here.name, in_short(here.value),
                         first["rank"].get<std::string>(),
                         here.name == there.name ? in_short(there.value) : "nothing",
                         document["rank"].get<std::string>(), advice);
    }
  }
  return fmt::format("{}; {}", said, advice);
}

// Names may be bytes of another encoding, which JSON can't hold: they are written out, so that what
// differs still does.
std::string as_utf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return text;
  } catch (const nlohmann::json::type_error&) {
    std::string written;
    for (const char byte : text) {
      const auto value = static_cast<unsigned char>(byte);
      written += value < 0x80 ? std::string(1, byte) : fmt::format("\\x{:02x}", value);
    }
    return written;
  }
}

std::string to_text(const Outcome& outcome, int rank) {
  auto facts = nlohmann::json::array();
  for (const auto& fact : outcome.facts) facts.push_back({as_utf8(fact.name), as_utf8(fact.value)});
  const nlohmann::json document{{"rank", as_utf8(describe_rank(rank))},
                                {"message", as_utf8(outcome.message)},
                                {"facts", facts}};
  return document.dump();
}

std::int64_t hash_of(const std::vector<RankFact>& facts) {
  std::string text;
  for (const auto& fact : facts) text += fact.name + '\0' + fact.value + '\0';
  return static_cast<std::int64_t>(fingerprint_of(text) >> 1);
}

// The status to end with, or 0 when all ranks are prepared, alike. Collective.
int agree(const Communicator& communicator, const Outcome& outcome, const Speaker& speaker) {
  const auto statuses = gather_statuses(communicator, outcome, speaker);
  const auto failed = std::find_if(statuses.begin(), statuses.end(),
                                   [](std::int64_t status) { return status != 0; });
  if (failed == statuses.end()) {
    const auto hash = hash_of(outcome.facts);
    const std::array<std::int64_t, 2> mine{hash, -hash};
    auto largest = mine;
    communicator.all_reduce(std::span(largest), ReduceOp::max, {.name = "facts"});
    if (largest[0] == -largest[1]) return 0;
  }
  const auto texts = gather_texts(communicator, to_text(outcome, communicator.rank()));
  if (communicator.rank() == 0) {
    if (failed != statuses.end())
      report_failures(statuses, texts);
    else
      complain(difference(texts));
  }
  communicator.barrier();  // nobody ends the job before that is said
  return failed == statuses.end() ? exit_wrong_input : narrow<int>(*failed);
}

// All ranks that were started. InputError where the configuration wants them started otherwise, and
// where a launcher has started processes that MPI does not connect, which then all throw.
Communicator make_communicator(const CommunicationConfig& config,
                               const LaunchEnvironment& environment) {
  using enum LauncherChoice;
  // One task of srun needs nobody, and srun may not have been told of MPI.
  const bool is_alone = !environment.is_launched() ||
                        (environment.started_by == StartedBy::srun && environment.size == 1);
  if (is_alone && config.launcher != mpi) return Communicator::solo();
  const bool is_of_kolo = environment.started_by == StartedBy::kolo;
  if (environment.is_launched() && config.launcher != automatic &&
      is_of_kolo != (config.launcher == processes)) {
    throw InputError(fmt::format(
        "communication.launcher is {}, but {} has started this program; leave the setting out",
        name_of(config.launcher), environment.launcher));
  }
  return join_ranks(config);
}

}  // namespace

int run_rank_job(const LaunchEnvironment& environment, const RankJob& job) {
  CommunicationConfig communication;
  std::exception_ptr failure;
  const auto configured = attempt([&]() -> std::vector<RankFact> {
    try {
      communication = job.configure();
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
    return {};
  });
  std::optional<Communicator> communicator = job.communicator;
  if (failure && !communicator && !environment.is_launched()) std::rethrow_exception(failure);
  try {
    if (!communicator) communicator.emplace(make_communicator(communication, environment));
  } catch (const std::exception&) {
    if (failure) std::rethrow_exception(failure);  // the ranks can't meet: that is what counts
    throw;
  }
  const int rank = communicator->rank(), ranks = communicator->size();
  if (ranks == 1) {
    if (failure) std::rethrow_exception(failure);
    (void)job.prepare({rank, ranks});
    if (job.load) job.load(*communicator);
    return run_guarded(*communicator, [&] { return job.run(*communicator); });
  }
  const Speaker speaker(*communicator);
  if (const int status = agree(*communicator, configured, speaker); status != 0) return status;
  const auto prepared = attempt([&] { return job.prepare({rank, ranks}); });
  if (const int status = agree(*communicator, prepared, speaker); status != 0) return status;
  if (job.load) {
    const auto loaded = attempt([&]() -> std::vector<RankFact> {
      job.load(*communicator);
      return {};
    });
    if (const int status = agree(*communicator, loaded, speaker); status != 0) return status;
  }
  return run_guarded(*communicator, [&] { return job.run(*communicator); });
}

}  // namespace kolo
