#include "kolo/parallel/halo_exchange.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/custom_class.h>

#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"

namespace kolo {

namespace {

// Exchange of one rank's rows along one dimension.
struct RowExchange {
  std::int64_t dimension = 2;
  int tag = 0;
  RowRange owned;        // rows before extend, after fold
  RowRange extended;     // rows after extend, before fold
  RowMessages messages;  // peers are ranks of the communicator

  [[nodiscard]] bool does_something() const {
    return owned != extended || !messages.sends.empty() || !messages.receives.empty();
  }
};

// A message and the memory that it is sent from or received in: [N, rows ..., C].
struct Parcel {
  RowMessage message;
  torch::Tensor memory;
};

torch::Tensor channels_last(const torch::Tensor& tensor) {
  return tensor.movedim(1, -1);
}

// Makes a tensor like `tensor` with other rows, which are undefined.
torch::Tensor with_rows(const torch::Tensor& tensor, const RowExchange& exchange,
                        const RowRange& rows) {
  auto sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(exchange.dimension)] = rows.size();
  return torch::empty(sizes, tensor.options(), tensor.suggest_memory_format());
}

// Gives views of some of a tensor's rows, of which it has `all`.
auto rows_of(const torch::Tensor& tensor, const RowExchange& exchange, const RowRange& all) {
  return [&tensor, dimension = exchange.dimension, all](const RowRange& rows) {
    return tensor.narrow(dimension, rows.begin - all.begin, rows.size());
  };
}

// Rows of `some` that `all` has too; none of them lie at its nearer end.
RowRange common(const RowRange& some, const RowRange& all) {
  const auto begin = std::clamp(some.begin, all.begin, all.end);
  return {begin, std::clamp(some.end, begin, all.end)};
}

struct Parcels {
  std::vector<Parcel> sent, received;
};

// Starts the messages. Their memory lives until they are done, also where an exception passes.
Work start(const Communicator& communicator, int tag, const std::shared_ptr<Parcels>& parcels) {
  std::vector<Transfer> transfers;
  for (const auto& [message, memory] : parcels->received)
    if (memory.numel() > 0)
      transfers.push_back(Transfer::receive(buffer_of(memory), message.peer, tag));
  for (const auto& [message, memory] : parcels->sent)
    if (memory.numel() > 0)
      transfers.push_back(Transfer::send(buffer_of(memory), message.peer, tag));
  if (transfers.empty()) return {};
  return communicator.exchange_async(transfers, {.name = "halo", .owner = parcels});
}

// Extends a tensor's rows, or folds them, which is the adjoint: messages go the other way, and what
// comes is added. A new tensor without autograd, in the memory format of the first. Rows travel
// with the channels last, whatever the format: it may differ between ranks, and rows of the slowest
// dimension are one piece of memory in the format that convolutions on processors like best.
torch::Tensor moved_rows(const Communicator& communicator, const torch::Tensor& tensor,
                         const RowExchange& exchange, bool folds) {
  const auto& [given, made] = folds ? std::pair(exchange.extended, exchange.owned)
                                    : std::pair(exchange.owned, exchange.extended);
  const auto &outgoing = folds ? exchange.messages.receives : exchange.messages.sends,
             &incoming = folds ? exchange.messages.sends : exchange.messages.receives;
  const auto result = with_rows(tensor, exchange, made);
  const auto before = rows_of(tensor, exchange, given), after = rows_of(result, exchange, made);
  const auto parcels = std::make_shared<Parcels>();
  for (const auto& message : outgoing)
    parcels->sent.push_back({message, channels_last(before(message.rows)).contiguous()});
  for (const auto& message : incoming) {
    // Received in the tensor itself where the rows are one piece of memory, and nothing else's.
    const auto target = channels_last(after(message.rows));
    parcels->received.push_back({message, !folds && target.is_contiguous()
                                              ? target
                                              : torch::empty(target.sizes(), target.options())});
  }
  const auto work = start(communicator, exchange.tag, parcels);
  const auto kept = common(given, made);
  if (!kept.is_empty()) after(kept).copy_(before(kept));
  for (const auto& rows : {RowRange{made.begin, kept.begin}, {kept.end, made.end}}) {
    const bool is_received =
        !folds && std::ranges::find(incoming, rows, &RowMessage::rows) != incoming.end();
    if (!rows.is_empty() && !is_received) after(rows).zero_();
  }
  work.wait();
  // In the order of the list, below and then above, so that sums repeat to the bit.
  for (const auto& parcel : parcels->received) {
    const auto target = channels_last(after(parcel.message.rows));
    if (folds)
      target.add_(parcel.memory);
    else if (target.data_ptr() != parcel.memory.data_ptr())
      target.copy_(parcel.memory);
  }
  return result;
}

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Exchanges along several axes, in the order of extend; among what autograd keeps.
struct HaloPlan : torch::CustomClassHolder {
  HaloPlan(Communicator ranks, std::vector<RowExchange> exchanges)
      : communicator(std::move(ranks)), axes(std::move(exchanges)) {}

  Communicator communicator;
  std::vector<RowExchange> axes;
};

// Exchange of halos in either direction. Zeros beyond a border have no gradient, and rows that were
// dropped there have a gradient of 0.
class MoveHalos : public torch::autograd::Function<MoveHalos> {
 public:
  static torch::Tensor forward(AutogradContext* context, torch::Tensor tensor,
                               const c10::intrusive_ptr<HaloPlan>& plan, bool folds) {
    context->saved_data["plan"] = c10::IValue::make_capsule(plan);
    context->saved_data["folds"] = folds;
    auto axes = plan->axes;
    // The adjoint of a sequence is the adjoints in reverse order.
    if (folds) std::ranges::reverse(axes);
    for (const auto& axis : axes) tensor = moved_rows(plan->communicator, tensor, axis, folds);
    return tensor;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto plan =
        c10::static_intrusive_pointer_cast<HaloPlan>(context->saved_data["plan"].toCapsule());
    return {MoveHalos::apply(gradients[0], plan, !context->saved_data["folds"].toBool()), {}, {}};
  }
};

void require_axis(const DeviceMesh& mesh, const torch::Tensor& tensor, const HaloAxis& halo) {
  if (halo.axis >= spatial_axes.size() ||
      static_cast<std::int64_t>(halo.axis) + 2 >= tensor.dim()) {
    throw Error(fmt::format(
        "parallel: halos: axis {} of a tensor of shape [{}], which has {} after the channels",
        halo.axis, c10::Join(", ", tensor.sizes()), std::max<std::int64_t>(0, tensor.dim() - 2)));
  }
  const auto ranks = halo.cut.input.ranks(), length = mesh.length(spatial_axes[halo.axis]);
  if (ranks == 1 || ranks == length) return;
  throw Error(
      fmt::format("parallel: halos: axis {} is cut among {} ranks, but the mesh has {} along it; "
                  "expected {} or 1",
                  halo.axis, ranks, length, length));
}

// This rank's exchange along an axis.
RowExchange exchange_of(const DeviceMesh& mesh, const HaloAxis& halo) {
  const auto axis = spatial_axes[halo.axis];
  const bool is_cut = halo.cut.input.ranks() > 1;
  const auto coordinate = is_cut ? mesh.coordinate(axis) : 0;
  RowExchange exchange{.dimension = static_cast<std::int64_t>(halo.axis) + 2,
                       .tag = static_cast<int>(halo.axis),
                       .owned = halo.cut.exchanged().rows(coordinate),
                       .extended = halo.cut.extended(coordinate),
                       .messages = row_messages(halo.cut, coordinate)};
  // Peers are coordinates so far; ranks of the group count the slowest axis first.
  int step = 1;
  for (std::size_t i = halo.axis + 1; i < spatial_axes.size(); ++i)
    step *= mesh.length(spatial_axes[i]);
  for (auto* messages : {&exchange.messages.sends, &exchange.messages.receives}) {
    for (auto& message : *messages)
      message.peer = mesh.spatial().rank() + (message.peer - coordinate) * step;
  }
  return exchange;
}

// The plan for a tensor with these rows; none where nothing happens to it on this rank.
c10::intrusive_ptr<HaloPlan> plan_of(const DeviceMesh& mesh, const torch::Tensor& tensor,
                                     std::span<const HaloAxis> axes, bool folds) {
  if (tensor.dim() < 3 || tensor.dim() > 5 || !torch::isFloatingType(tensor.scalar_type())) {
    throw Error(fmt::format(
        "parallel: halos: a tensor of {} with shape [{}]; expected a floating dtype and [N, C, L], "
        "[N, C, H, W] or [N, C, D, H, W]",
        torch::toString(tensor.scalar_type()), c10::Join(", ", tensor.sizes())));
  }
  std::vector<RowExchange> exchanges;
  for (const auto& halo : axes) {
    require_axis(mesh, tensor, halo);
    auto exchange = exchange_of(mesh, halo);
    const auto& rows = folds ? exchange.extended : exchange.owned;
    if (tensor.size(exchange.dimension) != rows.size()) {
      throw Error(fmt::format(
          "parallel: halos: rank {} has {} rows along axis {}, but its part is rows {} to {}, {} "
          "of them; is the tensor the part that the cut says?",
          mesh.spatial().rank(), tensor.size(exchange.dimension), halo.axis, rows.begin, rows.end,
          rows.size()));
    }
    if (exchange.does_something()) exchanges.push_back(std::move(exchange));
  }
  if (exchanges.empty()) return {};
  return c10::make_intrusive<HaloPlan>(mesh.spatial(), std::move(exchanges));
}

}  // namespace

torch::Tensor extend_halos(const DeviceMesh& mesh, const torch::Tensor& tensor,
                           std::span<const HaloAxis> axes) {
  const auto plan = plan_of(mesh, tensor, axes, /*folds=*/false);
  return plan ? MoveHalos::apply(tensor, plan, /*folds=*/false) : tensor;
}

torch::Tensor fold_halos(const DeviceMesh& mesh, const torch::Tensor& tensor,
                         std::span<const HaloAxis> axes) {
  const auto plan = plan_of(mesh, tensor, axes, /*folds=*/true);
  return plan ? MoveHalos::apply(tensor, plan, /*folds=*/true) : tensor;
}

}  // namespace kolo
