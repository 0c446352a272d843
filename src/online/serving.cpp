#include <array>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"
#include "online/inside.h"

// Ranks that train apart, and the requests that the others send them.
//
// A computing rank's messages reach its trainer in order: samples, and requests that all computing
// ranks make together. Training ranks begin each round with a meeting, and answer a request once it
// is the next message of every sender of every trainer. So all earlier samples are taken by then,
// and all trainers have made the same steps.
namespace kolo {

using namespace online;  // NOLINT: what this class is made of

namespace {

void send_text(const Communicator& ranks, int to, const std::string& text) {
  send_bytes(ranks, std::as_bytes(std::span(text)), to, answers_tag);
}

std::string receive_text(const Communicator& ranks, int from) {
  const auto bytes = receive_bytes(ranks, from, answers_tag);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TickReport OnlineNetwork::Inside::serve() {
  const auto here = call("serve");
  if (!roles_.trains || !config_.training.apart) {
    throw StateError(here.text(
        fmt::format("it is for ranks that train apart (training.apart: true), and this one {}",
                    roles_.trains ? "trains in tick()" : "computes")));
  }
  const auto steps_before = progress_.all_steps;
  while (true) {
    agree(*trainers_, here, [&] { take_letters(); });
    const auto plan = agree_on_plan();
    if (!plan) {
      if (!answer()) break;
    } else if (plan->steps > 0) {
      make_steps(1, time_step_);
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  inference_->use(live_weights());
  // Count the samples that arrived after the last step, too.
  const auto mine = store_.counts();
  std::array<std::int64_t, 2> all = {mine.arrivals, mine.stored};
  trainers_->all_reduce(std::span(all), ReduceOp::sum, {.name = "samples that came"});
  progress_.arrivals = all[0];
  progress_.stored = all[1];
  return report(progress_.all_steps - steps_before);
}

// Leaves samples that a full reservoir refuses in their letter, so their sender's mailbox fills up.
void OnlineNetwork::Inside::take_letters() {
  constexpr int most_at_once = 16;  // so that steps come between
  take_held();
  for (auto& inbox : inboxes_) {
    for (int i = 0; i < most_at_once; ++i) {
      Letter* const letter = inbox.look();
      if (letter == nullptr || letter->kind != Letter::Kind::samples) break;
      store_.require_shapes(letter->shapes);
      PushReport ignored;
      const auto taken = store_.add(letter->packed, letter->number, ignored);
      if (taken < letter->number) {
        const auto bytes = static_cast<std::size_t>(taken) * letter->shapes.packed_bytes();
        letter->packed.erase(letter->packed.begin(),
                             letter->packed.begin() + narrow<std::ptrdiff_t>(bytes));
        letter->number -= taken;
        break;
      }
      inbox.drop();
    }
  }
}

auto OnlineNetwork::Inside::agree_on_plan() -> std::optional<Plan> {
  constexpr std::int64_t none = -1;
  std::int64_t kind = none, number = 0;
  for (auto& inbox : inboxes_) {
    const Letter* const letter = inbox.look();
    if (letter == nullptr || letter->kind == Letter::Kind::samples) {
      kind = none;
      break;
    }
    const auto asked = static_cast<std::int64_t>(letter->kind);
    if (kind != none && (kind != asked || number != letter->number)) {
      throw Error(
          call("serve").text("the ranks that compute ask for different things at once; refresh, "
                             "save and restore are calls of all of them, in one order"));
    }
    kind = asked;
    number = letter->number;
  }
  if (all_reduce_value(*trainers_, kind, ReduceOp::min) != none) return std::nullopt;
  return plan_steps(*trainers_);
}

// Answers the request of all senders; false after finish().
bool OnlineNetwork::Inside::answer() {
  const Letter request = *inboxes_.front().look();
  for (auto& inbox : inboxes_) inbox.drop();
  if (request.kind == Letter::Kind::end) return false;
  if (request.kind == Letter::Kind::refresh) {
    send_weights();
    return true;
  }
  std::string words;
  try {
    if (request.kind == Letter::Kind::save)
      save_on(*trainers_, request.text, request.number);
    else
      restore_on(*trainers_, request.text, request.number);
  } catch (const std::exception& error) {
    words = error.what();
  }
  for (const int client : roles_.clients) send_text(ranks_, client, words);
  return true;
}

void OnlineNetwork::Inside::send_weights() {
  const auto weights = live_weights();
  std::vector<torch::Tensor> tensors;
  for (const auto& tensor : weights->tensors()) tensors.push_back(tensor.contiguous());
  for (const int client : roles_.clients) {
    send_text(ranks_, client, description_of(*weights));
    std::vector<Transfer> transfers;
    for (const auto& tensor : tensors)
      transfers.push_back(Transfer::send(buffer_of(tensor), client, weights_tag));
    ranks_.exchange(transfers, {.name = "weights"});
  }
}

void OnlineNetwork::Inside::receive_weights() {
  auto weights = std::make_shared<Weights>(inference_->weights()->copy());
  take_description(receive_text(ranks_, roles_.trainer), *weights);
  std::vector<torch::Tensor> received;
  std::vector<Transfer> transfers;
  for (const auto& tensor : weights->tensors()) {
    received.push_back(torch::empty(tensor.sizes(), tensor.options()));
    transfers.push_back(Transfer::receive(buffer_of(received.back()), roles_.trainer, weights_tag));
  }
  ranks_.exchange(transfers, {.name = "weights"});
  const auto all = weights->tensors();
  for (std::size_t i = 0; i < all.size(); ++i) torch::Tensor(all[i]).copy_(received[i]);
  inference_->use(std::move(weights));
}

void OnlineNetwork::Inside::ask(const Call& call, Letter::Kind kind, std::int64_t number,
                                const std::string& text) {
  agree(*computing_, call, [&] {
    if (is_finished_) throw StateError(call.text("after finish()"));
  });
  outbox_->send({.kind = kind, .number = number, .shapes = {}, .text = text, .packed = {}});
}

void OnlineNetwork::Inside::receive_answer(const Call& call) {
  const auto words = receive_text(ranks_, roles_.trainer);
  if (!words.empty()) throw CommunicationError(call.text("the ranks that train failed: " + words));
}

std::int64_t OnlineNetwork::Inside::refresh() {
  const auto here = call("refresh");
  require_computing(here);
  if (!config_.training.apart) return inference_->weights()->version;
  ask(here, Letter::Kind::refresh);
  receive_weights();
  return inference_->weights()->version;
}

void OnlineNetwork::Inside::finish() {
  if (!config_.training.apart || !roles_.computes || std::exchange(is_finished_, true)) return;
  outbox_->send({.kind = Letter::Kind::end, .shapes = {}, .text = {}, .packed = {}});
  outbox_->wait();
}

}  // namespace kolo
