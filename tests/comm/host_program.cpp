// host_program LEVEL SCENARIO/RANKS[/SETTING]...: a program with an MPI of its own, in which kolo
// has sessions. For host_programs_test.cpp. It ends with status 1 where something is not as it must
// be, and says what.
//   LEVEL     single, funneled, serialized or multiple: what it asks MPI for
//   SCENARIO  see scenarios() below; after `killed`, `forgotten` and `aborted` comes no other
//   RANKS     of the job's ranks the first so many, which are the scenario's world
//   SETTING   nodes (each session's last rank on a node of its own) or mpi (no shared memory)
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/mpi/mpi_calls.h"
#include "counted_mpi.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"
#include "kolo/comm/session.h"

namespace kolo::testing {
namespace {

std::atomic<int> failures = 0;
std::string scenario, setting;
MPI_Comm world = MPI_COMM_NULL;  // the scenario's

void check(bool is_so, const std::string& what) {
  if (is_so) return;
  ++failures;
  std::fprintf(stderr, "failed: %s: %s\n", scenario.c_str(), what.c_str());
}

template <typename Expected>
void check_throws(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    check(false, fmt::format("an error with \"{}\"", part));
  } catch (const Expected& error) {
    check(std::string(error.what()).find(part) != std::string::npos,
          fmt::format("\"{}\" in: {}", part, error.what()));
  } catch (const std::exception& error) {
    check(false, fmt::format("another type of: {}", error.what()));
  }
}

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  PMPI_Comm_rank(communicator, &rank);
  return rank;
}

int size_of(MPI_Comm communicator) {
  int size = 0;
  PMPI_Comm_size(communicator, &size);
  return size;
}

// Communicators of the program's own.
class Ranks {
 public:
  Ranks(int color, int key) { PMPI_Comm_split(world, color, key, &communicator_); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() { PMPI_Comm_free(&communicator_); }
  [[nodiscard]] MPI_Comm get() const { return communicator_; }

  [[nodiscard]] static Ranks all() { return {0, rank_in(world)}; }
  [[nodiscard]] static Ranks reversed() { return {0, -rank_in(world)}; }
  [[nodiscard]] static Ranks of_my_parity() { return {rank_in(world) % 2, 0}; }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
};

SessionOptions options_for(MPI_Comm communicator) {
  SessionOptions options;
  const int size = size_of(communicator);
  if (setting == "nodes" && size > 1) options.mpi.ranks_on_nodes = {size - 1, 1};
  if (setting == "mpi") options.mpi.shared_memory = SharedMemory::off;
  return options;
}

Session start(const Ranks& ranks) {
  return initialize(ranks.get(), options_for(ranks.get()));
}

int threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

int pieces_of_shared_memory() {
  int pieces = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) pieces += line.find("/kolo-") != line.npos;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    pieces += file.path().filename().string().starts_with(fmt::format("kolo-{}-", ::getpid()));
  return pieces;
}

std::int64_t resident_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

template <typename T>
std::uint64_t hash_of(const std::vector<T>& values, std::uint64_t seed) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i)
    seed = (seed ^ bytes[i]) * 0x100000001b3ULL;
  return seed;
}

std::vector<float> random_values(std::size_t count, int rank) {
  CounterRandom random(7, static_cast<std::uint32_t>(rank), 0);
  std::vector<float> values(count);
  for (float& value : values) value = random.uniform() - .5F;
  return values;
}

// A bit of all that a communicator does; a number that its results decide.
std::uint64_t use(const Communicator& ranks) {
  const int rank = ranks.rank(), size = ranks.size();
  std::uint64_t hash = 1;
  for (const std::size_t count : {1, 1000, 300'000}) {
    auto values = random_values(count, rank);
    const auto own_order = ranks.with_own_order();
    const Work work = ranks.all_reduce_async(std::span(values), ReduceOp::average);
    std::vector<std::int64_t> ones(count, 1);
    // The calls of both are in one order where nothing may overlap.
    if (!ranks.capabilities().concurrent) work.wait();
    own_order.all_reduce(std::span(ones));
    work.wait();
    check(ones.back() == size, "a sum of ones");
    hash = hash_of(values, hash);
    std::vector<float> all(count * static_cast<std::size_t>(size));
    ranks.all_gather(std::span<const float>(values), std::span(all));
    hash = hash_of(all, hash);
  }
  const auto memory = ranks.allocate(4000);
  const std::span shared(reinterpret_cast<float*>(memory.get()), 1000);
  std::ranges::copy(random_values(1000, rank), shared.begin());
  ranks.all_reduce(shared, ReduceOp::sum);
  hash = hash_of(std::vector(shared.begin(), shared.end()), hash);
  const auto set = ranks.split(rank % 2, -rank);
  check(all_reduce_value(*set, 1) == set->size(), "a sum over a set");
  if (size > 1) {
    std::vector<float> sent = random_values(50'000, rank), received(50'000);
    ranks.exchange(std::vector{Transfer::receive(std::span(received), (rank + 1) % size),
                               Transfer::send(std::span(sent), (rank + size - 1) % size)});
    check(received == random_values(50'000, (rank + 1) % size), "what the next rank sent");
  }
  return hash;
}

void check_clean(int threads_before) {
  const MpiCounts counts = mpi_counts();
  check(threads() == threads_before, fmt::format("{} threads, now {}", threads_before, threads()));
  check(pieces_of_shared_memory() == 0, "no shared memory is left");
  check(counts.communicators_present == 0,
        fmt::format("no communicators are left, but {}", counts.communicators_present));
  check(counts.others_present == 0,
        fmt::format("no operations and keys are left, but {}", counts.others_present));
}

void collectives() {
  const int before = threads();
  for (const bool is_reversed : {true, false}) {
    const auto ranks = is_reversed ? Ranks::reversed() : Ranks::of_my_parity();
    auto session = start(ranks);
    const auto& communicator = session.communicator();
    check(communicator.rank() == rank_in(ranks.get()), "the rank is the communicator's");
    check(communicator.size() == size_of(ranks.get()), "the size is the communicator's");
    const auto hash = use(communicator);
    std::printf("%d of %d: %016llx\n", communicator.rank(), communicator.size(),
                static_cast<unsigned long long>(hash));
    session.finalize();
    session.finalize();
    check(session.is_finalized(), "it is finalized");
    check_throws<StateError>([&] { (void)session.communicator(); }, "has been finalized");
  }
  check_clean(before);
}

// Two at once, on overlapping ranks, which differ in the order in which they use them where that
// is allowed, and in whether they are odd.
void two_sessions() {
  const int before = threads();
  const auto all = Ranks::reversed(), some = Ranks::of_my_parity();
  auto one = start(all), other = start(some);
  const bool may_cross = one.communicator().capabilities().concurrent &&
                         other.communicator().capabilities().concurrent;
  for (int round = 0; round < 20; ++round) {
    std::vector<float> a(1000, 1), b(1000, 2);
    std::vector<Work> works;
    const bool is_first = !may_cross || (one.communicator().rank() + round) % 2 == 0;
    if (is_first) works.push_back(one.communicator().all_reduce_async(std::span(a)));
    works.push_back(other.communicator().all_reduce_async(std::span(b)));
    if (!is_first) works.push_back(one.communicator().all_reduce_async(std::span(a)));
    for (const Work& work : works) work.wait();
    check(a[9] == static_cast<float>(one.communicator().size()), "the sum of all");
    check(b[9] == static_cast<float>(2 * other.communicator().size()), "the sum of some");
  }
  auto kept = std::optional(one.communicator());
  one.finalize();
  check_throws<StateError>([&] { kept->barrier(); }, "has been finalized");
  kept.reset();
  check(all_reduce_value(other.communicator(), 1) == other.communicator().size(),
        "the other session goes on");
  other.finalize();
  check_clean(before);
}

void rounds() {
  const auto ranks = Ranks::all();
  const int before = threads();
  std::int64_t resident = 0;
  for (int round = 0; round < 100; ++round) {
    auto session = start(ranks);
    const auto& communicator = session.communicator();
    const auto own = communicator.with_own_order();
    const auto memory = own.allocate(std::size_t{1} << 20);
    std::fill_n(memory.get(), std::size_t{1} << 20, std::byte{1});
    check(all_reduce_value(communicator.split(0).value(), 1) == communicator.size(), "a sum");
    session.finalize();
    if (round == 20) resident = resident_bytes();
  }
  check_clean(before);
  check(resident_bytes() < resident + (std::int64_t{8} << 20),
        fmt::format("80 rounds keep {} bytes", resident_bytes() - resident));
}

// Makes sets, orders and memory again and again in one session.
void sets_and_orders() {
  const auto ranks = Ranks::all();
  auto session = start(ranks);
  const auto& communicator = session.communicator();
  std::vector<int> in_order(static_cast<std::size_t>(communicator.size()));
  std::iota(in_order.rbegin(), in_order.rend(), 0);
  int made = 0, pieces = 0;
  std::int64_t resident = 0;
  for (int round = 0; round < 300; ++round) {
    const auto own = communicator.with_own_order();
    const auto memory = own.allocate(std::size_t{1} << 18);
    std::fill_n(memory.get(), std::size_t{1} << 18, std::byte{1});
    const auto shared = own.allocate_shared(std::size_t{1} << 18);
    const auto mine = static_cast<std::size_t>(own.topology().local_rank);
    if (!shared.empty()) std::fill_n(shared[mine].get(), std::size_t{1} << 18, std::byte{1});
    auto set = communicator.subset(in_order);
    check(all_reduce_value(*set, set->rank()) == set->size() * (set->size() - 1) / 2, "a sum");
    if (set->rank() == 0) set.reset();  // on one rank before the others
    check(all_reduce_value(own, 1) == own.size(), "a sum in an order of its own");
    if (round != 20) continue;
    made = mpi_counts().communicators_made;
    pieces = pieces_of_shared_memory();
    resident = resident_bytes();
  }
  check(
      mpi_counts().communicators_made == made,
      fmt::format("{} communicators, and no more than {}", mpi_counts().communicators_made, made));
  check(pieces_of_shared_memory() <= pieces + 1,
        fmt::format("{} pieces of shared memory, and no more than {}", pieces_of_shared_memory(),
                    pieces));
  check(resident_bytes() < resident + (std::int64_t{8} << 20),
        fmt::format("280 rounds keep {} bytes", resident_bytes() - resident));
  session.finalize();
}

void mistakes() {
  check_throws<InputError>([] { (void)initialize(MPI_COMM_NULL); }, "MPI_COMM_NULL");
  const auto ranks = Ranks::all();
  if (size_of(ranks.get()) == 1) return;
  const auto halves = Ranks::of_my_parity();
  MPI_Comm between = MPI_COMM_NULL;
  PMPI_Intercomm_create(halves.get(), 0, ranks.get(), 1 - rank_in(ranks.get()) % 2, 0, &between);
  check_throws<InputError>([&] { (void)initialize(between); }, "inter-communicator");
  PMPI_Comm_free(&between);

  auto options = options_for(ranks.get());
  options.mpi.checked = true;
  auto session = initialize(ranks.get(), options);
  const auto& communicator = session.communicator();
  const bool is_last = communicator.rank() + 1 == communicator.size();
  check_throws<Error>(
      [&] { is_last ? communicator.barrier() : (void)all_reduce_value(communicator, 1); },
      fmt::format("rank {} barrier", communicator.size() - 1));
  check(all_reduce_value(communicator, 1) == communicator.size(), "it goes on after a mistake");
  // One rank finalizes it while the others make a call.
  check_throws<Error>(
      [&] {
        if (is_last)
          session.finalize();
        else
          (void)all_reduce_value(communicator, 1);
      },
      fmt::format("rank {} barrier", communicator.size() - 1));
  check(!session.is_finalized(), "it goes on");
  session.finalize();
}

std::optional<Session> static_session;
std::optional<Communicator> static_handle;
std::shared_ptr<std::byte> static_memory;

// Session::finalize() is forgotten, or the session goes without it; one rank has asked for more
// than the others do.
void forgotten() {
  const int before = threads();
  {
    const auto ranks = Ranks::all();
    static_session = start(ranks);
    static_handle = static_session->communicator();
    static_memory = static_handle->allocate(10'000);
    (void)use(*static_handle);
    const auto gone = start(ranks);
    (void)use(gone.communicator());
  }
  const bool asks_for_more = static_handle->rank() == 0 && static_handle->size() > 1 &&
                             static_handle->capabilities().asynchronous;
  float value = 1;
  Work work;
  if (asks_for_more) work = static_handle->all_reduce_async(std::span(&value, 1));
  const int calls = mpi_counts().calls;
  PMPI_Finalize();
  static_memory.get()[9'999] = std::byte{1};
  check(setting == "nodes" || setting == "mpi" || mpi_counts().calls == calls,
        "no calls of MPI's in MPI_Finalize");
  check(threads() <= before, fmt::format("{} threads, now {}", before, threads()));
  if (asks_for_more) check_throws<CommunicationError>([&] { work.wait(); }, "comm: ");
  check_throws<StateError>([] { static_handle->barrier(); }, "MPI has been finalized");
  check_throws<StateError>([] { (void)static_handle->split(0); }, "MPI has been finalized");
  check_throws<StateError>([] { (void)static_session->communicator(); }, "MPI has been finalized");
  check_throws<StateError>([] { static_session->finalize(); }, "after MPI_Finalize");
  check_throws<StateError>([] { (void)initialize(MPI_COMM_SELF); }, "has been finalized");
}

// Checks that the other ranks learn by name which rank has failed, in the waiting call and every
// later one, and end by themselves.
void learn(Session& session, const std::string& part) {
  const auto& communicator = session.communicator();
  std::vector<float> values(5000, 1);
  check_throws<CommunicationError>(
      [&] {
        communicator.barrier();  // which that rank may have left, and failed, before the others
        while (true) communicator.all_reduce(std::span(values));
      },
      part);
  check_throws<CommunicationError>([&] { (void)all_reduce_value(communicator, 1); }, part);
  check_throws<CommunicationError>([&] { (void)communicator.split(0); }, part);
  session.finalize();
  std::printf("rank %d has learnt\n", rank_in(world));
}

void killed() {
  const auto ranks = Ranks::all();
  auto session = start(ranks);
  (void)use(session.communicator());
  if (rank_in(ranks.get()) == 1) {
    session.communicator().barrier();
    ::kill(::getpid(), SIGKILL);
  }
  learn(session, "rank 1 ");
  std::fflush(nullptr);
  std::_Exit(failures == 0 ? 0 : 1);
}

// Lets an exception leave a rank with a pending call.
void thrown() {
  const auto ranks = Ranks::all();
  auto session = start(ranks);
  (void)use(session.communicator());
  if (rank_in(ranks.get()) == 1) {
    session.communicator().barrier();
    std::vector<float> values(5000);
    try {
      const auto of_this_rank = std::move(session);
      const Work work = of_this_rank.communicator().receive_async(std::span(values), 0, 7);
      throw std::runtime_error("a mistake of the program's");
    } catch (const std::runtime_error&) {
      std::printf("rank 1 goes on\n");
    }
    return;
  }
  learn(session, "rank 1");
}

// Lets the watch's limit pass on waiting ranks, which breaks the session for all.
void late() {
  const auto ranks = Ranks::all();
  auto options = options_for(ranks.get());
  options.mpi.watch.limit = std::chrono::seconds(3);
  options.mpi.watch.folder = std::filesystem::temp_directory_path();
  auto session = initialize(ranks.get(), options);
  const bool is_late = rank_in(ranks.get()) == 1;
  if (!is_late) learn(session, "the watch's limit is 3 s");
  PMPI_Barrier(ranks.get());
  if (is_late) learn(session, "the watch's limit is 3 s");
}

// A rank is stopped for some seconds, another computes for as long: nobody says a word.
void patient() {
  const auto ranks = Ranks::all();
  auto options = options_for(ranks.get());
  options.mpi.watch.report = [](const std::string& message) { check(false, message); };
  auto session = initialize(ranks.get(), options);
  const int rank = rank_in(ranks.get());
  if (rank == 1) {
    const auto script = fmt::format("(sleep 2; kill -CONT {}) > /dev/null 2>&1 &", ::getpid());
    check(std::system(script.c_str()) == 0, "a shell");
    ::kill(::getpid(), SIGSTOP);
  }
  check(all_reduce_value(session.communicator(), 1) == size_of(ranks.get()), "a sum");
  if (rank == 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  check(all_reduce_value(session.communicator(), 1) == size_of(ranks.get()), "a sum");
  session.finalize();
}

// Told to, kolo ends the job.
void aborted() {
  const auto ranks = Ranks::all();
  auto options = options_for(ranks.get());
  options.on_failure = OnFailure::abort;
  auto session = initialize(ranks.get(), options);
  if (rank_in(ranks.get()) == 1) session.communicator().abort(3);
  session.communicator().barrier();
}

const std::map<std::string, void (*)()>& scenarios() {
  static const std::map<std::string, void (*)()> all = {
      {"collectives", collectives}, {"two", two_sessions},  {"rounds", rounds},
      {"sets", sets_and_orders},    {"mistakes", mistakes}, {"forgotten", forgotten},
      {"killed", killed},           {"thrown", thrown},     {"late", late},
      {"patient", patient},         {"aborted", aborted}};
  return all;
}

// Checks all calls that kolo has made.
void check_calls(int level) {
  const MpiCounts counts = mpi_counts();
  check(counts.calls > 0, "calls are counted");
  check(counts.on_world == 0, fmt::format("{} calls on MPI_COMM_WORLD", counts.on_world));
  check(counts.begins_and_ends == 0, "no MPI_Init, MPI_Finalize or MPI_Abort");
  check(level == MPI_THREAD_MULTIPLE || counts.by_other_threads == 0,
        fmt::format("{} calls by threads of kolo's own", counts.by_other_threads));
}

// WORD: SCENARIO/RANKS[/SETTING].
void play(const std::string& word) {
  std::istringstream parts(word);
  std::string name, ranks;
  setting.clear();
  std::getline(parts, name, '/');
  std::getline(parts, ranks, '/');
  std::getline(parts, setting);
  scenario = word;
  const int rank = rank_in(MPI_COMM_WORLD);
  PMPI_Comm_split(MPI_COMM_WORLD, rank < std::stoi(ranks) ? 0 : MPI_UNDEFINED, rank, &world);
  if (world == MPI_COMM_NULL) return;
  scenarios().at(name)();
  int is_finalized = 0;
  PMPI_Finalized(&is_finalized);
  if (is_finalized == 0) PMPI_Comm_free(&world);
  std::fflush(nullptr);
}

int run(const std::string& level, const std::vector<std::string>& words) {
  const std::map<std::string, int> levels = {{"single", MPI_THREAD_SINGLE},
                                             {"funneled", MPI_THREAD_FUNNELED},
                                             {"serialized", MPI_THREAD_SERIALIZED},
                                             {"multiple", MPI_THREAD_MULTIPLE}};
  check_throws<StateError>([] { (void)initialize(MPI_COMM_SELF); }, "has not been initialized");
  int provided = 0, is_finalized = 0;
  PMPI_Init_thread(nullptr, nullptr, levels.at(level), &provided);
  if (provided != levels.at(level)) std::fprintf(stderr, "MPI has granted another level\n");
  for (const auto& word : words) play(word);
  check_calls(provided);
  PMPI_Finalized(&is_finalized);
  if (is_finalized == 0) PMPI_Finalize();
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kolo::testing

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return kolo::testing::run(argv[1], {argv + 2, argv + argc});
}
