#include "cli/rank/rank_job.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "cli/rank/rank_guard.h"
#include "cli/rank/rank_setup.h"
#include "cli/terminal.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/observe/wrap.h"

namespace kolo {

namespace {

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
    return {1, "an exception of unknown type", {}};
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

void say(const std::string& message) {
  std::cerr << wrap("kolo: " + message, terminal_width(STDERR_FILENO)) << std::endl;
}

// Each rank's status and whether its facts are the others'. Collective; but a rank that has failed
// does not wait for ever for those that still prepare.
std::vector<std::int64_t> gather_statuses(const Communicator& communicator,
                                          const Outcome& outcome) {
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
  if (outcome.status != 0 && !work.wait_for(std::chrono::seconds(2))) {
    say(fmt::format("{}: {}", describe_rank(communicator.rank()), outcome.message));
    communicator.abort(outcome.status);
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
    return say(messages[0]);
  for (std::size_t i = 0; i < std::min(messages.size(), most_messages); ++i) {
    const auto& ranks = ranks_of[messages[i]];
    const auto first =
        nlohmann::json::parse(texts[ranks[0]])["rank"].get<std::string>();  // "rank 1 (on node2)"
    const auto others =
        ranks.size() == 1 ? std::string() : fmt::format(" and {} more", ranks.size() - 1);
    say(fmt::format("{}{}: {}", first, others, messages[i]));
  }
  if (messages.size() > most_messages)
    say(fmt::format("and {} more messages of other ranks", messages.size() - most_messages));
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

// The first fact that isn't rank 0's, or nothing.
std::string difference(const std::vector<std::string>& texts) {
  const auto first = nlohmann::json::parse(texts[0]);
  const auto expected = facts_in(first);
  for (const auto& text : texts) {
    if (text == texts[0]) continue;
    const auto document = nlohmann::json::parse(text);
    const auto found = facts_in(document);
    for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
      const auto here = i < expected.size() ? expected[i] : RankFact{};
      const auto there = i < found.size() ? found[i] : RankFact{};
      if (here.name == there.name && here.value == there.value) continue;
      return fmt::format(
          "the ranks have not been given the same: {} is {} for {}, but {} for {}; all nodes need "
          "the same configuration, data and program",
          here.name.empty() ? there.name : here.name, in_short(here.value),
          first["rank"].get<std::string>(),
          here.name == there.name ? in_short(there.value) : "nothing",
          document["rank"].get<std::string>());
    }
  }
  return {};
}

std::string to_text(const Outcome& outcome, int rank) {
  auto facts = nlohmann::json::array();
  for (const auto& fact : outcome.facts) facts.push_back({fact.name, fact.value});
  const nlohmann::json document{
      {"rank", describe_rank(rank)}, {"message", outcome.message}, {"facts", facts}};
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// FNV-1a.
std::int64_t hash_of(const std::vector<RankFact>& facts) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const auto& fact : facts) {
    for (const char letter : fact.name + '\0' + fact.value + '\0')
      hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  }
  return static_cast<std::int64_t>(hash >> 1);
}

// The status to end with, or 0 when all ranks are prepared, alike. Collective.
int agree(const Communicator& communicator, const Outcome& outcome) {
  const auto statuses = gather_statuses(communicator, outcome);
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
      say(difference(texts));
  }
  communicator.barrier();  // nobody ends the job before that is said
  return failed == statuses.end() ? exit_wrong_input : narrow<int>(*failed);
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
  if (failure && !environment.is_launched()) std::rethrow_exception(failure);
  std::optional<Communicator> communicator;
  try {
    communicator.emplace(make_communicator(communication, environment));
  } catch (const std::exception&) {
    if (failure) std::rethrow_exception(failure);  // the ranks can't meet: that is what counts
    throw;
  }
  const int rank = communicator->rank(), ranks = communicator->size();
  if (ranks == 1) {
    if (failure) std::rethrow_exception(failure);
    (void)job.prepare(rank, ranks);
    return run_guarded(*communicator, [&] { return job.run(*communicator); });
  }
  const auto prepared = failure ? configured : attempt([&] { return job.prepare(rank, ranks); });
  if (const int status = agree(*communicator, prepared); status != 0) return status;
  return run_guarded(*communicator, [&] { return job.run(*communicator); });
}

}  // namespace kolo
