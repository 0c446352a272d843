#include "kolo/parallel/halo_exchange.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/custom_class.h>

#include "kolo/base/error.h"
#include "parallel/spatial/row_exchange.h"

namespace kolo {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum class HaloDirection : std::int64_t { extend, fold };

HaloDirection opposite(HaloDirection direction) {
  return direction == HaloDirection::extend ? HaloDirection::fold : HaloDirection::extend;
}

// Exchanges along several axes, in the order of extend; among what autograd keeps.
struct HaloPlan : torch::CustomClassHolder {
  HaloPlan(Communicator ranks, std::vector<RowExchange> exchanges)
      : communicator(std::move(ranks)), axes(std::move(exchanges)) {}

  Communicator communicator;
  std::vector<RowExchange> axes;
};

torch::Tensor moved(const HaloPlan& plan, torch::Tensor tensor, HaloDirection direction) {
  if (direction == HaloDirection::extend) {
    for (const auto& axis : plan.axes) tensor = extended_rows(plan.communicator, tensor, axis);
    return tensor;
  }
  // The adjoint of one after another is the adjoints the other way round.
  for (auto axis = plan.axes.rbegin(); axis != plan.axes.rend(); ++axis)
    tensor = folded_rows(plan.communicator, tensor, *axis);
  return tensor;
}

// Both directions. The gradient of the zeros beyond a border goes nowhere, and the gradient of what
// was dropped there is 0.
class MoveHalos : public torch::autograd::Function<MoveHalos> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tensor,
                               const c10::intrusive_ptr<HaloPlan>& plan, HaloDirection direction) {
    context->saved_data["plan"] = c10::IValue::make_capsule(plan);
    context->saved_data["direction"] = static_cast<std::int64_t>(direction);
    return moved(*plan, tensor, direction);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto plan =
        c10::static_intrusive_pointer_cast<HaloPlan>(context->saved_data["plan"].toCapsule());
    const auto direction = static_cast<HaloDirection>(context->saved_data["direction"].toInt());
    return {MoveHalos::apply(gradients[0], plan, opposite(direction)), {}, {}};
  }
};

std::string shape_of(const torch::Tensor& tensor) {
  return fmt::format("[{}]", c10::Join(", ", tensor.sizes()));
}

void require_axis(const DeviceMesh& mesh, const torch::Tensor& tensor, const HaloAxis& halo) {
  if (halo.axis >= spatial_axes.size() ||
      static_cast<std::int64_t>(halo.axis) + 2 >= tensor.dim()) {
    throw Error(fmt::format(
        "parallel: halos: axis {} of a tensor of shape {}, which has {} after the channels",
        halo.axis, shape_of(tensor), std::max<std::int64_t>(0, tensor.dim() - 2)));
  }
  const auto ranks = halo.cut.input.ranks(), length = mesh.length(spatial_axes[halo.axis]);
  if (ranks == 1 || ranks == length) return;
  throw Error(
      fmt::format("parallel: halos: axis {} is cut among {} ranks, but the mesh has {} along it; "
                  "expected {} or 1",
                  halo.axis, ranks, length, length));
}

// What this rank does along an axis.
RowExchange exchange_of(const DeviceMesh& mesh, const HaloAxis& halo) {
  const auto axis = spatial_axes[halo.axis];
  const bool is_cut = halo.cut.input.ranks() > 1;
  const auto place = is_cut ? mesh.coordinate(axis) : 0;
  RowExchange exchange{.dimension = static_cast<std::int64_t>(halo.axis) + 2,
                       .tag = 2 * static_cast<int>(halo.axis),
                       .owned = halo.cut.exchanged().rows(place),
                       .extended = halo.cut.extended(place),
                       .messages = row_messages(halo.cut, place)};
  // Peers are places along the axis so far; in the group places count the slowest axis first.
  int step = 1;
  for (std::size_t i = halo.axis + 1; i < spatial_axes.size(); ++i)
    step *= mesh.length(spatial_axes[i]);
  for (auto* messages : {&exchange.messages.sends, &exchange.messages.receives}) {
    for (auto& message : *messages)
      message.peer = mesh.spatial().rank() + (message.peer - place) * step;
  }
  return exchange;
}

// The plan for a tensor with these rows; none where nothing happens to it on this rank.
c10::intrusive_ptr<HaloPlan> plan_of(const DeviceMesh& mesh, const torch::Tensor& tensor,
                                     std::span<const HaloAxis> axes, HaloDirection direction) {
  if (tensor.dim() < 3 || tensor.dim() > 5 || !torch::isFloatingType(tensor.scalar_type())) {
    throw Error(fmt::format(
        "parallel: halos: a tensor of {} with shape {}; expected a floating dtype and [N, C, L], "
        "[N, C, H, W] or [N, C, D, H, W]",
        torch::toString(tensor.scalar_type()), shape_of(tensor)));
  }
  std::vector<RowExchange> exchanges;
  for (const auto& halo : axes) {
    require_axis(mesh, tensor, halo);
    auto exchange = exchange_of(mesh, halo);
    const auto& rows = direction == HaloDirection::extend ? exchange.owned : exchange.extended;
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
  const auto plan = plan_of(mesh, tensor, axes, HaloDirection::extend);
  return plan ? MoveHalos::apply(tensor, plan, HaloDirection::extend) : tensor;
}

torch::Tensor fold_halos(const DeviceMesh& mesh, const torch::Tensor& tensor,
                         std::span<const HaloAxis> axes) {
  const auto plan = plan_of(mesh, tensor, axes, HaloDirection::fold);
  return plan ? MoveHalos::apply(tensor, plan, HaloDirection::fold) : tensor;
}

}  // namespace kolo
