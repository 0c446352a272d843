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
  if (roles_.trains)
    store_.require_shapes(shapes);
  else
    shapes_ = shapes;
  const auto at_once = slices_at_once(arguments.inputs, shapes.packed_bytes());
  PushReport report;
  PackedSamples packed;
  std::int64_t done = 0;
  for (std::int64_t first = 0; first < arguments.inputs.slices(); first += at_once) {
    read_slices(arguments, first, std::min(at_once, arguments.inputs.slices() - first), shapes,
                packed);
    const auto taken = take(packed, report);
    done += taken;
    if (taken < packed.count) break;
  }
  const bool drops = config_.reservoir.when_full == WhenFull::drop;
  (drops ? report.dropped : report.refused) += arguments.inputs.samples() - done;
  return report;
}

// Takes the first samples and returns how many.
std::int64_t OnlineNetwork::Inside::take(const PackedSamples& packed, PushReport& report) {
  if (roles_.trains) return store_.add(packed.bytes, packed.count, report);
  const auto under_way = outbox_ ? outbox_->samples_under_way() : waiting_.count;
  const auto count =
      std::clamp<std::int64_t>(config_.reservoir.mailbox - under_way, 0, packed.count);
  const auto bytes = static_cast<std::size_t>(count) * shapes_.value().packed_bytes();
  const auto end = packed.bytes.begin() + narrow<std::ptrdiff_t>(bytes);
  report.taken += count;
  if (count == 0) return 0;
  if (outbox_) {
    outbox_->send({.kind = Letter::Kind::samples,
                   .number = count,
                   .shapes = *shapes_,
                   .packed = {packed.bytes.begin(), end}});
    return count;
  }
  waiting_.bytes.insert(waiting_.bytes.end(), packed.bytes.begin(), end);
  waiting_.count += count;
  return count;
}

// Sends the waiting samples to this rank's trainer, which waits for them.
void OnlineNetwork::Inside::send_waiting() {
  Letter letter{.kind = Letter::Kind::samples, .number = waiting_.count};
  if (shapes_) letter.shapes = *shapes_;
  letter.packed = std::exchange(waiting_, {}).bytes;
  send_bytes(ranks_, to_bytes(letter), roles_.trainer, samples_tag);
}

void OnlineNetwork::Inside::receive_waiting() {
  for (const int client : roles_.clients) {
    const auto letter = letter_from(receive_bytes(ranks_, client, samples_tag));
    if (letter.number == 0) continue;
    store_.require_shapes(letter.shapes);
    PushReport ignored;
    (void)store_.add(letter.packed, letter.number, ignored);
  }
}

}  // namespace kolo
