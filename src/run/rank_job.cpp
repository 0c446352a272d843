#include "run/rank_job.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "base/file_failure.h"
#include "base/memory_failure.h"
#include "kolo/base/checked.h"
#include "kolo/base/machine.h"
#include "kolo/comm/processes.h"
#include "kolo/config/derived_settings.h"
#include "kolo/parallel/object_collectives.h"
#include "run/launch/terminal.h"

namespace kolo {

namespace {

// Delay of a failed rank, so that lower ranks with the same failure speak first.
std::chrono::milliseconds head_start_of_lower_ranks(int rank) {
  return std::chrono::milliseconds(rank == 0 ? 0 : 1000 + 200 * std::min(rank, 20));
}

// Under MPI the call does not return.
void end_job(const Communicator& communicator, const std::string& message, int status) {
  communicator.announce_abort();
  complain(fmt::format("{}: {}", describe_rank(communicator.rank()), message));
  communicator.abort(status);
}

void end_job_in_turn(const Communicator& communicator, const std::string& message, int status) {
  communicator.announce_abort();
  let_lower_ranks_speak(communicator.rank());
  end_job(communicator, message, status);
}

}  // namespace

int exit_status_of(const std::exception& error) {
  const auto* const of_files = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  const bool is_of_input = dynamic_cast<const InputError*>(&error) != nullptr ||
                           (of_files != nullptr && is_of_the_name(*of_files));
  return is_of_input ? exit_wrong_input : exit_failed;
}

std::string message_of(const std::exception& error) {
  if (const auto* const of_files = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return describe(*of_files);
  if (wants_memory(error)) return "there is not enough memory for what was asked for";
  const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again)
    return "the system starts no more threads for this process: allow more (ulimit -u, or pids.max "
           "of its control group), or start fewer ranks and threads (device.intra_threads)";
  std::string text = error.what();
  // LibTorch adds the place that threw, and addresses.
  for (const auto* const addresses : {"\nException raised from", "\nframe #0:"})
    text.resize(std::min(text.size(), text.find(addresses)));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string describe_rank(int rank) {
  return fmt::format("rank {} (on {})", rank, host_name());
}

void let_lower_ranks_speak(int rank) {
  if (rank == 0) return;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_DFL);
  std::this_thread::sleep_for(head_start_of_lower_ranks(rank));
}

int run_guarded(const Communicator& communicator, const std::function<int()>& body) {
  try {
    return body();
  } catch (const CommunicationError&) {
    communicator.abort(exit_failed);
    throw;
  } catch (const std::exception& error) {
    if (communicator.size() > 1)
      end_job_in_turn(communicator, message_of(error), exit_status_of(error));
    throw;
  } catch (...) {
    if (communicator.size() > 1)
      end_job_in_turn(communicator, "an exception of unknown type", exit_failed);
    throw;
  }
}

namespace {

// kolo never hands memory of GPUs to MPI. Where modules of a site ask Cray MPICH to take it,
// MPI_Init ends programs that aren't linked with its GPU library.
void leave_gpu_memory_to_kolo() {
  const char* const kept = std::getenv("KOLO_MPICH_GPU");
  if (std::getenv("MPICH_GPU_SUPPORT_ENABLED") != nullptr && !(kept != nullptr && *kept == '1'))
    setenv("MPICH_GPU_SUPPORT_ENABLED", "0", /*overwrite=*/1);
}

// Result of a step of a rank's preparation.
struct Outcome {
  int status = 0;
  std::string message;  // of a failure
  std::string who;      // rank that failed; empty: the message says it
};

Outcome attempt(int rank, const std::function<void()>& step) {
  try {
    step();
    return {};
  } catch (const std::exception& error) {
    return {exit_status_of(error), message_of(error), describe_rank(rank)};
  } catch (...) {
    return {exit_failed, "an exception of unknown type", describe_rank(rank)};
  }
}

// Chooses one of a node's failed ranks to speak: the first that asks, in memory that they share.
class Speaker {
 public:
  // Collective.
  explicit Speaker(const Communicator& communicator)
      : memory_(communicator.allocate_for_node(sizeof(Flag))) {
    if (memory_ && communicator.topology().local_rank == 0) std::construct_at(flag(), 0);
    communicator.barrier();
  }

  // True for one rank of the node, or for all where they share no memory.
  [[nodiscard]] bool may_speak() const { return !memory_ || flag()->exchange(1) == 0; }

 private:
  using Flag = std::atomic<std::int32_t>;
  static_assert(Flag::is_always_lock_free);

  [[nodiscard]] Flag* flag() const { return reinterpret_cast<Flag*>(memory_.get()); }

  std::shared_ptr<std::byte> memory_;
};

// Gathers each rank's status. Collective; but a failed rank ends the job where others still prepare
// after a while.
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

// Prints each message of the failed ranks once. Collective.
void report_failures(const Communicator& communicator, const Outcome& outcome,
                     const std::vector<std::int64_t>& statuses) {
  const auto whose = all_gather_bytes(communicator, outcome.who, {.name = "failed ranks"});
  const auto texts = all_gather_bytes(communicator, outcome.message, {.name = "failures"});
  if (communicator.rank() != 0) return;
  constexpr std::size_t most_messages = 8;
  std::vector<std::string> messages;
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    if (statuses[rank] == 0) continue;
    auto& ranks = ranks_of[texts[rank]];
    if (ranks.empty()) messages.push_back(texts[rank]);
    ranks.push_back(rank);
  }
  if (messages.size() == 1 && ranks_of[messages[0]].size() == statuses.size())
    return complain(messages[0]);
  for (std::size_t i = 0; i < std::min(messages.size(), most_messages); ++i) {
    const auto& ranks = ranks_of[messages[i]];
    const auto& first = whose[ranks[0]];  // "rank 1 (on node2)"
    const auto others =
        ranks.size() == 1 ? std::string() : fmt::format(" and {} more", ranks.size() - 1);
    complain(first.empty() ? messages[i] : fmt::format("{}{}: {}", first, others, messages[i]));
  }
  if (messages.size() > most_messages)
    complain(fmt::format("and {} more messages of other ranks", messages.size() - most_messages));
}

// The status to end with, or 0 when nothing has failed on any rank. Collective; where another rank
// ends the job meanwhile, a failed one returns its own status, and speaks if nobody of its node
// has.
int agree(const Communicator& communicator, const Outcome& outcome, const Speaker& speaker) {
  try {
    const auto statuses = gather_statuses(communicator, outcome, speaker);
    const auto failed = std::ranges::find_if(statuses, [](auto status) { return status != 0; });
    if (failed == statuses.end()) return 0;
    report_failures(communicator, outcome, statuses);
    communicator.barrier();  // nobody ends the job earlier
    return narrow<int>(*failed);
  } catch (const CommunicationError&) {
    if (outcome.status == 0) throw;
    if (speaker.may_speak())
      complain(fmt::format("{}: {}", describe_rank(communicator.rank()), outcome.message));
    return outcome.status;
  }
}

std::string in_short(const std::string& value) {
  constexpr std::size_t longest = 200;
  if (value.empty()) return "nothing";
  return value.size() <= longest ? value : value.substr(0, longest) + "...";
}

// Fails where these facts differ from rank 0's, and names the first that does. Collective.
Outcome compare(const Communicator& communicator, const std::vector<RankFact>& facts) {
  std::string mine, texts = describe_rank(communicator.rank()) + '\0';
  for (const auto& fact : facts) mine += fact.name + '\0' + fact.value + '\0';
  texts = broadcast_bytes(communicator, texts + mine, 0, {.name = "facts"});
  std::istringstream rest(texts);
  std::string root;
  std::getline(rest, root, '\0');
  if (std::string_view(texts).substr(root.size() + 1) == mine) return {};
  RankFact expected, found;
  std::size_t i = 0;
  do {
    std::getline(rest, expected.name, '\0');
    std::getline(rest, expected.value, '\0');
    found = i < facts.size() ? facts[i] : RankFact{};
  } while (i++ < facts.size() && expected.name == found.name && expected.value == found.value);
  return {exit_wrong_input,
          fmt::format("the ranks have not been given the same: {} is {} for {}, but {} for {}; all "
                      "nodes need the same configuration, data and program",
                      expected.name.empty() ? found.name : expected.name, in_short(expected.value),
                      root, expected.name == found.name ? in_short(found.value) : "nothing",
                      describe_rank(communicator.rank())),
          {}};
}

// Joins all ranks that were started. InputError where the configuration wants another launcher, and
// on all processes where MPI does not connect them.
Communicator make_communicator(const CommunicationConfig& config,
                               const LaunchEnvironment& environment) {
  using enum LauncherChoice;
  // One task of srun is alone, and srun may not have been told of MPI.
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
  leave_gpu_memory_to_kolo();
  return job_communicator(make_mpi_options(config));
}

}  // namespace

int run_rank_job(const LaunchEnvironment& environment, const RankJob& job) {
  CommunicationConfig communication;
  std::exception_ptr failure;  // of the configuration
  try {
    communication = job.configure();
  } catch (...) {
    failure = std::current_exception();
  }
  const auto rethrow = [&] {
    if (failure) std::rethrow_exception(failure);
  };
  std::optional<Communicator> communicator = job.communicator;
  if (!communicator && !environment.is_launched()) rethrow();
  try {
    if (!communicator) communicator.emplace(make_communicator(communication, environment));
  } catch (const std::exception&) {
    rethrow();  // a wrong configuration explains why the ranks can't meet
    throw;
  }
  const auto run = [&] { return job.run(*communicator); };
  const RankPreparation preparation{communicator->rank(), communicator->size()};
  if (preparation.ranks == 1) {
    rethrow();
    (void)job.prepare(preparation);
    if (job.load) job.load(*communicator);
    return run_guarded(*communicator, run);
  }
  const Speaker speaker(*communicator);
  const auto agree_on = [&](const Outcome& outcome) {
    return agree(*communicator, outcome, speaker);
  };
  const auto all_agree_on = [&](const std::function<void()>& step) {
    return agree_on(attempt(preparation.rank, step));
  };
  std::vector<RankFact> facts;
  int status = all_agree_on(rethrow);
  if (status == 0) status = all_agree_on([&] { facts = job.prepare(preparation); });
  if (status == 0) status = agree_on(compare(*communicator, facts));
  if (status == 0 && job.load) status = all_agree_on([&] { job.load(*communicator); });
  return status != 0 ? status : run_guarded(*communicator, run);
}

}  // namespace kolo
