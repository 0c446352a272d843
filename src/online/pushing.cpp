#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "online/inside.h"

// The way of samples into this rank's reservoir, or into its trainer's.
namespace kolo {

using namespace online;  // NOLINT: what this class is made of

namespace {

// Number of slices whose packed samples fill about 1 MiB; at least one.
std::int64_t slices_at_once(const SampleArrays& inputs, std::size_t packed_bytes) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 20;
  const auto in_slice = inputs.samples() / inputs.slices();
  const auto bytes = checked_multiply(in_slice, narrow<std::int64_t>(packed_bytes));
  return std::max<std::int64_t>(1, most_bytes / std::max<std::int64_t>(1, bytes));
}

// Reads the samples of some slices packed.
void read_slices(const SampleArguments& arguments, std::int64_t first, std::int64_t count,
                 const SampleShapes& shapes, PackedSamples& packed) {
  const auto bytes = shapes.packed_bytes();
  packed.count = arguments.inputs.samples() / arguments.inputs.slices() * count;
  packed.bytes.resize(checked_multiply(static_cast<std::size_t>(packed.count), bytes));
  auto* to = packed.bytes.data();
  for (const auto* const arrays : {&arguments.inputs, &arguments.targets, &arguments.extras}) {
    arrays->pack(first, count, to, bytes);
    for (const auto& shape : arrays->shapes()) to += shape.packed_bytes();
  }
}

// Calls the function with the samples of a call, packed, some at a time, until it returns false.
template <typename Function>
void for_each_packed(const SampleArguments& arguments, const SampleShapes& shapes,
                     const Function& function) {
  const auto slices = arguments.inputs.slices();
  const auto at_once = slices_at_once(arguments.inputs, shapes.packed_bytes());
  PackedSamples packed;
  for (std::int64_t first = 0; first < slices; first += at_once) {
    read_slices(arguments, first, std::min(at_once, slices - first), shapes, packed);
    if (!function(packed)) return;
  }
}

}  // namespace

// Refuses samples of other shapes than those before. The first ones are refused if the network or
// the loss doesn't take them, so that no faulty call decides what later ones must be. What networks
// and losses of TorchScript files and of the program take shows in the first step.
void OnlineNetwork::Inside::require_fitting(const SampleArguments& arguments, const Call& call) {
  const auto known = roles_.trains ? store_.shapes() : shapes_;
  if (known) return arguments.require(*known, call);
  const auto shapes = arguments.shapes();
  if (fitting_ == shapes) return;
  if (catalogue_loss_ && !shapes.extras.empty()) {
    refuse(
        call, "extras",
        fmt::format("samples of {}; expected none, because the loss {} takes none, only one from "
                    "a file (training.loss_file)",
                    describe(shapes.extras), config_.training.loss));
  }
  const auto& model = config_.model.name;
  if (model != "own" && model != "torchscript")
    inference_->require_samples(shapes, catalogue_loss_, call);
  fitting_ = shapes;
}

PushReport OnlineNetwork::Inside::push(std::span<const Array> inputs,
                                       std::span<const Array> targets,
                                       std::span<const Array> extras) {
  const auto here = call("push");
  require_computing(here);
  const SampleArguments arguments(inputs, targets, extras, config_.training, here);
  const auto shapes = arguments.shapes();
  if (shapes.targets.empty()) refuse(here, "targets", "there are none; expected an array or more");
  require_fitting(arguments, here);
  if (roles_.trains) {
    store_.require_shapes(shapes);
    take_held();  // which came before
  } else {
    shapes_ = shapes;
  }
  PushReport report;
  std::int64_t done = 0;
  for_each_packed(arguments, shapes, [&](const PackedSamples& packed) {
    const auto taken = take(packed, report);
    done += taken;
    return taken == packed.count;
  });
  const bool drops = config_.reservoir.when_full == WhenFull::drop;
  (drops ? report.dropped : report.refused) += arguments.inputs.samples() - done;
  return report;
}

// Adds the samples of train() to the statistics that they are normalized by.
void OnlineNetwork::Inside::measure(const SampleArguments& arguments) {
  if (!normalizer_.needs_statistics()) return;
  const auto shapes = arguments.shapes();
  for_each_packed(arguments, shapes, [&](const PackedSamples& packed) {
    store_.measure(packed.bytes, shapes);
    return true;
  });
}

// Takes the first samples and returns how many.
std::int64_t OnlineNetwork::Inside::take(const PackedSamples& packed, PushReport& report) {
  if (roles_.trains) return store_.add(packed.bytes, packed.count, report);
  const auto under_way = outbox_ ? outbox_->samples_under_way() : waiting_.count + held_by_trainer_;
  const auto room = config_.reservoir.mailbox - under_way;
  PackedSamples mail;
  const auto taken =
      take_finite(packed.bytes, packed.count, shapes_.value(), report, [&](auto sample) {
        if (mail.count >= room) return false;
        mail.bytes.insert(mail.bytes.end(), sample.begin(), sample.end());
        ++mail.count;
        return true;
      });
  if (mail.count == 0) return taken;
  if (outbox_) {
    outbox_->send({.kind = Letter::Kind::samples,
                   .number = mail.count,
                   .shapes = *shapes_,
                   .packed = std::move(mail.bytes)});
  } else {
    waiting_.bytes.insert(waiting_.bytes.end(), mail.bytes.begin(), mail.bytes.end());
    waiting_.count += mail.count;
  }
  return taken;
}

// Passes the waiting samples of ranks that don't train to those that do. Collective.
void OnlineNetwork::Inside::pass_samples(const Call& call) {
  if (roles_.are_all) return take_held();
  if (!roles_.trains) send_waiting();
  agree(ranks_, call, [&] { receive_waiting(); });
  tell_held();
}

// Sends the waiting samples to this rank's trainer, which waits for them.
void OnlineNetwork::Inside::send_waiting() {
  Letter letter{.kind = Letter::Kind::samples, .number = waiting_.count};
  if (shapes_) letter.shapes = *shapes_;
  letter.packed = std::exchange(waiting_, {}).bytes;
  send_bytes(ranks_, to_bytes(letter), roles_.trainer, samples_tag);
}

void OnlineNetwork::Inside::receive_waiting() {
  std::vector<Letter> letters;  // all, before one may be refused: none is left for the next time
  for (const int client : roles_.clients)
    letters.push_back(letter_from(receive_bytes(ranks_, client, samples_tag)));
  for (const auto& letter : letters) {
    if (letter.number == 0) continue;
    store_.require_shapes(letter.shapes);
    held_.bytes.insert(held_.bytes.end(), letter.packed.begin(), letter.packed.end());
    held_.count += letter.number;
  }
  take_held();
}

// Keeps what a full reservoir refuses: push() has reported it as taken.
void OnlineNetwork::Inside::take_held() {
  if (held_.count == 0) return;
  const auto bytes = held_.bytes.size() / static_cast<std::size_t>(held_.count);
  PushReport ignored;
  const auto taken = store_.add(held_.bytes, held_.count, ignored);
  const auto end = static_cast<std::size_t>(taken) * bytes;
  held_.bytes.erase(held_.bytes.begin(), held_.bytes.begin() + narrow<std::ptrdiff_t>(end));
  held_.count -= taken;
}

// Tells the senders how many samples their trainer holds, so that their mailboxes fill up. Only a
// reservoir of keep_unseen refuses any.
void OnlineNetwork::Inside::tell_held() {
  if (config_.reservoir.policy != ReservoirPolicy::keep_unseen) return;
  for (const int client : roles_.clients)
    ranks_.send(std::span(&held_.count, 1), client, answers_tag, {.name = "samples that wait"});
  if (roles_.trains) return;
  ranks_.receive(std::span(&held_by_trainer_, 1), roles_.trainer, answers_tag,
                 {.name = "samples that wait"});
}

}  // namespace kolo
