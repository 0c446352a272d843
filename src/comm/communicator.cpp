#include "kolo/comm/communicator.h"

#include <exception>

#include <fmt/format.h>

#include "comm/executor.h"
#include "comm/solo/solo_backend.h"
#include "kolo/base/checked.h"

namespace kolo {

// Destroyed from the bottom up: pending collectives finish before the back end goes.
struct Communicator::Group {
  Group(std::shared_ptr<Backend> the_backend, std::shared_ptr<Executor> the_executor)
      : backend(std::move(the_backend)), executor(std::move(the_executor)) {}
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  ~Group() {
    // An exception is leaving this rank while collectives are pending for which the others can't be
    // sure to come: waiting might never end, so the job does.
    if (std::uncaught_exceptions() > exceptions_at_start && executor->is_pending())
      backend->abort(1);
  }

  std::shared_ptr<Backend> backend;
  std::shared_ptr<Executor> executor;
  int exceptions_at_start = std::uncaught_exceptions();
};

namespace {

void check_memory(const ConstBuffer& buffer, const char* collective, const char* which) {
  if (buffer.count < 0 || (buffer.count > 0 && buffer.data == nullptr)) {
    throw Error(fmt::format(
        "comm: {}: the {} buffer has {} elements at address {}; expected memory and a count >= 0",
        collective, which, buffer.count, buffer.data));
  }
}

void check_op(DataType type, ReduceOp op, const char* collective) {
  if (type == DataType::boolean && op == ReduceOp::average) {
    throw Error(fmt::format(
        "comm: {}: booleans have no average; use sum (or), min (and) or max (or)", collective));
  }
}

// `whole` must hold `parts` times `part`.
void check_parts(const ConstBuffer& whole, const ConstBuffer& part, int parts,
                 const char* collective) {
  const auto expected = checked_multiply<std::int64_t>(part.count, parts);
  if (whole.count != expected || whole.type != part.type) {
    throw Error(
        fmt::format("comm: {}: {} {} elements and {} {} elements don't fit; {} ranks need {} {} "
                    "elements for the larger one",
                    collective, whole.count, name_of(whole.type), part.count, name_of(part.type),
                    parts, expected, name_of(part.type)));
  }
}

}  // namespace

Communicator Communicator::solo() {
  return Communicator(std::make_shared<SoloBackend>(), std::make_shared<Executor>(false));
}

Communicator::Communicator(std::shared_ptr<Backend> backend)
    : Communicator(backend, std::make_shared<Executor>(backend->capabilities().asynchronous)) {}

Communicator::Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Executor> executor)
    : group_(std::make_shared<Group>(std::move(backend), std::move(executor))) {}

const Topology& Communicator::topology() const {
  return group_->backend->topology();
}

Capabilities Communicator::capabilities() const {
  return group_->backend->capabilities();
}

void Communicator::all_reduce(Buffer buffer, ReduceOp op) const {
  check_memory(buffer, "all-reduce", "data");
  check_op(buffer.type, op, "all-reduce");
  group_->executor->run([&] { group_->backend->all_reduce(buffer, op); });
}

Work Communicator::all_reduce_async(Buffer buffer, ReduceOp op, std::shared_ptr<const void> owner) const {
  check_memory(buffer, "all-reduce", "data");
  check_op(buffer.type, op, "all-reduce");
  return group_->executor->submit(
      [backend = group_->backend, buffer, op, owner = std::move(owner)] { backend->all_reduce(buffer, op); });
}

namespace {

void check_root(int root, int size) {
  if (root < 0 || root >= size) {
    throw Error(
        fmt::format("comm: broadcast: root {} is not a rank; expected 0 to {}", root, size - 1));
  }
}

}  // namespace

void Communicator::broadcast(Buffer buffer, int root) const {
  check_memory(buffer, "broadcast", "data");
  check_root(root, size());
  group_->executor->run([&] { group_->backend->broadcast(buffer, root); });
}

Work Communicator::broadcast_async(Buffer buffer, int root) const {
  check_memory(buffer, "broadcast", "data");
  check_root(root, size());
  return group_->executor->submit(
      [backend = group_->backend, buffer, root] { backend->broadcast(buffer, root); });
}

namespace {

void check_all_gather(const ConstBuffer& input, const Buffer& output, int size) {
  check_memory(input, "all-gather", "input");
  check_memory(output, "all-gather", "output");
  check_parts(output, input, size, "all-gather");
}

void check_reduce_scatter(const ConstBuffer& input, const Buffer& output, ReduceOp op, int size) {
  check_memory(input, "reduce-scatter", "input");
  check_memory(output, "reduce-scatter", "output");
  check_op(input.type, op, "reduce-scatter");
  check_parts(input, output, size, "reduce-scatter");
}

}  // namespace

void Communicator::all_gather(ConstBuffer input, Buffer output) const {
  check_all_gather(input, output, size());
  group_->executor->run([&] { group_->backend->all_gather(input, output); });
}

Work Communicator::all_gather_async(ConstBuffer input, Buffer output) const {
  check_all_gather(input, output, size());
  return group_->executor->submit(
      [backend = group_->backend, input, output] { backend->all_gather(input, output); });
}

void Communicator::reduce_scatter(ConstBuffer input, Buffer output, ReduceOp op) const {
  check_reduce_scatter(input, output, op, size());
  group_->executor->run([&] { group_->backend->reduce_scatter(input, output, op); });
}

Work Communicator::reduce_scatter_async(ConstBuffer input, Buffer output, ReduceOp op) const {
  check_reduce_scatter(input, output, op, size());
  return group_->executor->submit([backend = group_->backend, input, output, op] {
    backend->reduce_scatter(input, output, op);
  });
}

void Communicator::barrier() const {
  group_->executor->run([&] { group_->backend->barrier(); });
}

Work Communicator::barrier_async() const {
  return group_->executor->submit([backend = group_->backend] { backend->barrier(); });
}

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) const {
  std::shared_ptr<std::byte> memory;
  group_->executor->run([&] { memory = group_->backend->allocate(bytes); });
  return memory;
}

void Communicator::abort(int exit_code) const noexcept {
  group_->backend->abort(exit_code);
}

}  // namespace kolo
