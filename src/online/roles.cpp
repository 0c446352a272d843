#include "online/roles.h"

#include <algorithm>
#include <exception>
#include <limits>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/object_collectives.h"
#include "online/shapes_json.h"

namespace kolo::online {

namespace {

std::vector<int> trainers_of(const OnlineTrainingConfig& training, int ranks) {
  std::vector<int> trainers;
  for (const auto rank : training.ranks) {
    if (rank >= ranks) {
      throw InputError(
          fmt::format("training.ranks: rank {} is to train, but there are {} ranks, from 0 to {}",
                      rank, ranks, ranks - 1));
    }
    trainers.push_back(narrow<int>(rank));
  }
  std::ranges::sort(trainers);
  trainers.erase(std::unique(trainers.begin(), trainers.end()), trainers.end());
  if (!trainers.empty()) return trainers;
  for (std::int64_t rank = 0; rank < ranks; rank += training.rank_stride)
    trainers.push_back(narrow<int>(rank));
  return trainers;
}

}  // namespace

// Deals computing ranks to trainers in blocks, so that most pairs share a node.
Roles Roles::of(const OnlineTrainingConfig& training, int rank, int ranks) {
  Roles roles;
  roles.trainers = trainers_of(training, ranks);
  roles.are_all = narrow<int>(roles.trainers.size()) == ranks;
  const auto n_trainers = narrow<std::int64_t>(roles.trainers.size());
  const std::int64_t n_others = ranks - n_trainers;
  if (training.apart && n_others < n_trainers) {
    throw InputError(fmt::format(
        "training.apart: of {} ranks {} would train and {} compute; each that trains takes the "
        "samples of one that computes at least: name fewer in training.ranks, or give a larger "
        "training.rank_stride",
        ranks, n_trainers, n_others));
  }
  const auto is_trainer = [&](int each) { return std::ranges::count(roles.trainers, each) > 0; };
  roles.trains = is_trainer(rank);
  roles.computes = !roles.trains || !training.apart;
  for (std::int64_t other = 0, client = 0; other < ranks; ++other) {
    if (is_trainer(static_cast<int>(other))) continue;
    const auto trainer = roles.trainers[static_cast<std::size_t>(client * n_trainers / n_others)];
    if (other == rank) roles.trainer = trainer;
    if (trainer == rank) roles.clients.push_back(static_cast<int>(other));
    ++client;
  }
  if (roles.trains) roles.trainer = rank;
  return roles;
}

void agree(const Communicator& ranks, const Call& call, const std::function<void()>& local) {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::exception_ptr failure;
  std::string words;
  try {
    local();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    words = error.what();
  }
  const std::int64_t mine = failure ? ranks.rank() : none;
  const auto first = all_reduce_value(ranks, mine, ReduceOp::min);
  if (first == none) return;
  const auto said = broadcast_bytes(ranks, words, static_cast<int>(first));
  if (failure) std::rethrow_exception(failure);
  throw CommunicationError(
      call.text("another rank could not take part, so it is not done: " + said));
}

void require_same(const Communicator& ranks, const Call& call, std::string_view argument,
                  std::string_view text) {
  const auto all = all_gather_bytes(ranks, text);
  const auto other =
      std::ranges::find_if(all, [&](const auto& each) { return each != all.front(); });
  if (other == all.end()) return;
  // Their numbers in messages, which those in a set of ranks are not.
  const auto names = all_gather_bytes(ranks, std::to_string(call.rank));
  refuse(
      call, argument,
      fmt::format("rank {} gives {}, but rank {} gives {}; give all ranks the same", names.front(),
                  all.front(), names[static_cast<std::size_t>(other - all.begin())], *other));
}

// Format: the heading's length (8 bytes), the heading in JSON, the packed samples.
std::vector<std::byte> to_bytes(const Letter& letter) {
  const auto heading = nlohmann::json{
      {"kind", static_cast<std::int64_t>(letter.kind)},
      {"number", letter.number},
      {"text", letter.text},
      {"shapes",
       letter.shapes}}.dump();
  const auto length = static_cast<std::uint64_t>(heading.size());
  std::vector<std::byte> bytes(checked_add(sizeof(length) + heading.size(), letter.packed.size()));
  auto* to = bytes.data();
  const auto put = [&to](const void* data, std::size_t size) {
    const auto* const begin = static_cast<const std::byte*>(data);
    to = std::copy(begin, begin + size, to);
  };
  put(&length, sizeof(length));
  put(heading.data(), heading.size());
  put(letter.packed.data(), letter.packed.size());
  return bytes;
}

Letter letter_from(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof(length)) throw Error("online: a message without a heading");
  std::copy_n(bytes.begin(), sizeof(length), reinterpret_cast<std::byte*>(&length));
  if (length > bytes.size() - sizeof(length)) throw Error("online: a message that is cut short");
  const auto* const heading = reinterpret_cast<const char*>(bytes.data() + sizeof(length));
  const auto document = nlohmann::json::parse(heading, heading + length);
  Letter letter;
  letter.kind = static_cast<Letter::Kind>(document.at("kind").get<std::int64_t>());
  letter.number = document.at("number").get<std::int64_t>();
  letter.text = document.at("text").get<std::string>();
  letter.shapes = document.at("shapes").get<SampleShapes>();
  const auto packed = bytes.subspan(sizeof(length) + length);
  letter.packed.assign(packed.begin(), packed.end());
  return letter;
}

void send_bytes(const Communicator& ranks, std::span<const std::byte> bytes, int to, MailTag tag) {
  const auto length = narrow<std::int64_t>(bytes.size());
  ranks.send(std::span(&length, 1), to, tag, {.name = "a message's length"});
  ranks.send(ConstBuffer(bytes.data(), length, DataType::uint8), to, tag + 1,
             {.name = "a message"});
}

std::vector<std::byte> receive_bytes(const Communicator& ranks, int from, MailTag tag) {
  std::int64_t length = 0;
  ranks.receive(std::span(&length, 1), from, tag, {.name = "a message's length"});
  std::vector<std::byte> bytes(static_cast<std::size_t>(length));
  ranks.receive(Buffer(bytes.data(), length, DataType::uint8), from, tag + 1,
                {.name = "a message"});
  return bytes;
}

void Outbox::forget_taken() {
  while (!sent_.empty() && sent_.front().of_length.is_done() && sent_.front().of_bytes.is_done()) {
    sent_.front().of_length.wait();
    sent_.front().of_bytes.wait();
    sent_.pop_front();
  }
}

std::int64_t Outbox::samples_under_way() {
  forget_taken();
  std::int64_t samples = 0;
  for (const auto& sent : sent_) samples += sent.samples;
  return samples;
}

void Outbox::send(const Letter& letter) {
  forget_taken();
  auto& sent = sent_.emplace_back();
  sent.samples = letter.kind == Letter::Kind::samples ? letter.number : 0;
  sent.bytes = to_bytes(letter);
  sent.length[0] = narrow<std::int64_t>(sent.bytes.size());
  sent.of_length = ranks_.send_async(std::span<const std::int64_t>(sent.length), trainer_,
                                     letters_tag, {.name = "samples' length"});
  sent.of_bytes = ranks_.send_async(
      ConstBuffer(sent.bytes.data(), narrow<std::int64_t>(sent.bytes.size()), DataType::uint8),
      trainer_, letters_tag + 1, {.name = "samples"});
}

void Outbox::wait() {
  for (const auto& sent : sent_) {
    sent.of_length.wait();
    sent.of_bytes.wait();
  }
  sent_.clear();
}

Letter* Inbox::look() {
  if (letter_) return &*letter_;
  if (!of_length_) {
    of_length_ = ranks_.receive_async(std::span<std::int64_t>(length_), sender_, letters_tag,
                                      {.name = "samples' length"});
  }
  if (!of_length_->is_done()) return nullptr;
  if (!of_bytes_) {
    of_length_->wait();  // throws its Error, if any
    bytes_.resize(static_cast<std::size_t>(length_[0]));
    of_bytes_ = ranks_.receive_async(Buffer(bytes_.data(), length_[0], DataType::uint8), sender_,
                                     letters_tag + 1, {.name = "samples"});
  }
  if (!of_bytes_->is_done()) return nullptr;
  of_bytes_->wait();
  letter_ = letter_from(bytes_);
  return &*letter_;
}

void Inbox::drop() {
  letter_.reset();
  of_length_.reset();
  of_bytes_.reset();
}

}  // namespace kolo::online
