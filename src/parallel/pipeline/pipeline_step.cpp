#include "kolo/parallel/pipeline_step.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/clock.h"
#include "kolo/base/enum_names.h"
#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/random.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/pipeline_stages.h"
#include "parallel/pipeline/payload_exchange.h"
#include "parallel/pipeline/stage_graph.h"

namespace kolo {

namespace {

using parallel::PayloadExchange;
using parallel::StageGraph;

PipelineShape pipeline_shape_of(const DeviceMesh& mesh, const PipelineStepOptions& options) {
  return {options.schedule, mesh.length(MeshAxis::pipe), options.micro_batches, options.chunks};
}

// What the ranks have to agree on, in words.
std::string describe_pipeline(const PipelineShape& shape, const PipelineStepOptions& options,
                              std::span<const NetworkStage> stages) {
  std::vector<std::string> names;
  for (const auto& stage : stages) names.push_back(stage.name);
  return fmt::format("schedule {}, {} micro-batches, {} chunks, bounds [{}] of the stages {}",
                     name_of(shape.schedule), shape.micro_batches, shape.chunks,
                     fmt::join(options.bounds, ", "), fmt::join(names, ", "));
}

void require_one_pipeline(const Communicator& pipe, const std::string& description) {
  const auto all = all_gather_bytes(pipe, description, {.name = "pipeline"});
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error(
        fmt::format("parallel: pipeline: rank 0 has {}, rank {} has {}; make the same on all ranks",
                    all[0], rank, all[rank]));
  }
}

torch::Device device_of(const torch::nn::Module& module) {
  for (const auto& tensor : module.parameters()) return tensor.device();
  for (const auto& tensor : module.buffers()) return tensor.device();
  return torch::kCPU;
}

std::vector<torch::Tensor> weights_of(const NetworkStage& stage) {
  std::vector<torch::Tensor> weights;
  for (const auto& part : stage.modules) {
    for (const auto& parameter : part.module->parameters())
      if (parameter.requires_grad()) weights.push_back(parameter);
  }
  return weights;
}

}  // namespace

class PipelineStep::State {
 public:
  State(const DeviceMesh& mesh, std::vector<NetworkStage> stages,
        const PipelineStepOptions& options);

  torch::Tensor run(const Batch& batch, std::int64_t step, const Backward& backward);
  torch::Tensor evaluate(const Batch& batch, int micro_batches);

  [[nodiscard]] bool has_part(int part) const { return part % shape_.ranks == pipe_.rank(); }

  std::shared_ptr<torch::nn::Module> module_;
  PipelineShape shape_;
  IdleTime idle_;

 private:
  // One of this rank's parts.
  struct Part {
    std::size_t first_stage = 0;  // of the network
    std::vector<NetworkStage> stages;
    std::vector<std::vector<torch::Tensor>> weights;  // by stage: those that are trained
  };
  // Of a pass: one of the whole part, or, where gradients of weights are computed apart, one of
  // each stage.
  using Graphs = std::vector<StageGraph>;
  using Pass = std::pair<int, int>;  // part, micro-batch
  // What a list of actions is carried out for.
  struct Run {
    const Batch& batch;
    const Backward* backward = nullptr;  // none: forward alone
    PipelineShape shape;
    PayloadExchange& exchange;
    std::int64_t step = 0;
    torch::Tensor sums;
    std::map<Pass, Graphs> graphs;
    std::map<Pass, StagePayload> activations, gradients;  // made by parts here, not yet taken
  };

  void carry_out(Run& run, std::span<const PipelineAction> actions);
  void forward(Run& run, int part, int micro_batch);
  void backward(Run& run, int part, int micro_batch);
  void weight_gradient(Run& run, int part, int micro_batch);
  void send(Run& run, const PipelineAction& action);
  [[nodiscard]] StagePayload input_of(Run& run, StageGraph& graph, int part, int micro_batch);
  [[nodiscard]] StagePayload slopes_of(Run& run, const StageGraph& graph, int part,
                                       int micro_batch);
  [[nodiscard]] StagePayload run_part(const Part& part, StagePayload payload, const Run& run,
                                      int micro_batch, Graphs& graphs) const;
  [[nodiscard]] std::optional<GradientReducer::NoSync> quiet_until_last(const Run& run,
                                                                        int micro_batch) const;
  [[nodiscard]] torch::Tensor loss_of(Run& run, StagePayload outputs, int micro_batch);
  [[nodiscard]] PayloadExchange::Received receive(Run& run, PipelinePayload kind, int micro_batch,
                                                  int sending_part);
  [[nodiscard]] Timeline::Span span_of(PipelineWork work, int part, int micro_batch) const {
    return options_.timeline.span(name_of(PipelinePass{work, part, micro_batch}));
  }
  [[nodiscard]] const Part& own(int part) const {
    return parts_[static_cast<std::size_t>(part / shape_.ranks)];
  }

  Communicator pipe_;
  PipelineStepOptions options_;
  std::uint32_t data_rank_;
  std::vector<PipelineAction> actions_;
  std::vector<Part> parts_;  // by chunk
  torch::Device device_ = torch::kCPU;
  std::optional<PayloadExchange> exchange_;  // of steps
};

PipelineStep::State::State(const DeviceMesh& mesh, std::vector<NetworkStage> stages,
                           const PipelineStepOptions& options)
    : shape_(pipeline_shape_of(mesh, options)),
      pipe_(mesh.axis(MeshAxis::pipe)),
      options_(options),
      data_rank_(static_cast<std::uint32_t>(mesh.coordinate(MeshAxis::data))) {
  auto plan = plan_pipeline(shape_);
  require_one_pipeline(pipe_, describe_pipeline(shape_, options_, stages));
  require_parts(stages, options_.bounds);
  if (static_cast<int>(options_.bounds.size()) != shape_.stages() + 1) {
    throw InputError(
        fmt::format("parallel: pipeline: bounds of {} parts for {} ranks with {} chunks each",
                    options_.bounds.size() - 1, shape_.ranks, shape_.chunks));
  }
  actions_ = std::move(plan.actions[static_cast<std::size_t>(pipe_.rank())]);
  std::vector<NetworkStage> mine;
  for (int part = pipe_.rank(); part < shape_.stages(); part += shape_.ranks) {
    const auto first = options_.bounds[static_cast<std::size_t>(part)];
    const auto end = options_.bounds[static_cast<std::size_t>(part) + 1];
    parts_.push_back({first,
                      {stages.begin() + static_cast<std::ptrdiff_t>(first),
                       stages.begin() + static_cast<std::ptrdiff_t>(end)},
                      {}});
    for (const auto& stage : parts_.back().stages)
      parts_.back().weights.push_back(weights_of(stage));
    mine.insert(mine.end(), parts_.back().stages.begin(), parts_.back().stages.end());
  }
  module_ = module_of(mine);
  device_ = device_of(*module_);
  exchange_.emplace(pipe_, device_);
}

torch::Tensor PipelineStep::State::run(const Batch& batch, std::int64_t step,
                                       const Backward& backward) {
  const torch::AutoGradMode with_gradients(true);
  Run run{batch, &backward, shape_, *exchange_, step};
  carry_out(run, actions_);
  return run.sums;
}

// The lists without backward are in an order that can be carried out, as the whole ones are.
torch::Tensor PipelineStep::State::evaluate(const Batch& batch, int micro_batches) {
  const torch::NoGradGuard no_gradient;
  auto shape = shape_;
  shape.micro_batches = micro_batches;
  auto actions = plan_pipeline(shape).actions[static_cast<std::size_t>(pipe_.rank())];
  std::erase_if(actions, [](const PipelineAction& action) {
    const bool is_message =
        action.work == PipelineWork::send || action.work == PipelineWork::receive;
    return is_message ? action.payload == PipelinePayload::gradient
                      : action.work != PipelineWork::forward;
  });
  PayloadExchange exchange(pipe_, device_);
  Run run{batch, nullptr, shape, exchange};
  carry_out(run, actions);
  return run.sums;
}

void PipelineStep::State::carry_out(Run& run, std::span<const PipelineAction> actions) {
  const Stopwatch watch;
  run.sums = torch::zeros({options_.sums}, torch::TensorOptions(torch::kDouble).device(device_));
  for (const auto& action : actions) {
    const auto part = action.chunk * shape_.ranks + pipe_.rank();
    switch (action.work) {
      case PipelineWork::forward:
        forward(run, part, action.micro_batch);
        break;
      case PipelineWork::backward:
        backward(run, part, action.micro_batch);
        break;
      case PipelineWork::send:
        send(run, action);
        break;
      case PipelineWork::receive:
        run.exchange.post_receive(run.shape, action);
        break;
      case PipelineWork::weight_gradient:
        weight_gradient(run, part, action.micro_batch);
        break;
    }
  }
  run.exchange.finish_sends();
  idle_.waiting_seconds += run.exchange.take_waiting_seconds();
  idle_.seconds += watch.seconds();
}

void PipelineStep::State::forward(Run& run, int part, int micro_batch) {
  Graphs graphs(1);
  auto payload = input_of(run, graphs.front(), part, micro_batch);
  const auto span = span_of(PipelineWork::forward, part, micro_batch);
  auto outputs = run_part(own(part), std::move(payload), run, micro_batch, graphs);
  if (part + 1 == shape_.stages())
    outputs = {loss_of(run, std::move(outputs), micro_batch)};
  else
    run.activations[{part, micro_batch}] = outputs;
  if (run.backward == nullptr) return;
  graphs.back().end(std::move(outputs));
  run.graphs[{part, micro_batch}] = std::move(graphs);
}

StagePayload PipelineStep::State::input_of(Run& run, StageGraph& graph, int part, int micro_batch) {
  if (part == 0) return {run.batch.input(micro_batch)};
  const auto before = run.activations.extract({part - 1, micro_batch});
  if (!before.empty()) {
    const auto needs = parallel::gradient_needs(before.mapped());
    return graph.begin(before.mapped(), needs);
  }
  auto [payload, needs] = receive(run, PipelinePayload::activation, micro_batch, part - 1);
  return graph.begin(std::move(payload), needs);
}

StagePayload PipelineStep::State::run_part(const Part& part, StagePayload payload, const Run& run,
                                           int micro_batch, Graphs& graphs) const {
  const bool is_divided = run.backward != nullptr && shape_.has_weight_gradients();
  const auto of_step = derive_seed(options_.seed, data_rank_, static_cast<std::uint64_t>(run.step));
  for (std::size_t index = 0; index < part.stages.size(); ++index) {
    if (run.backward != nullptr) {
      seed_generators(derive_seed(of_step, static_cast<std::uint32_t>(part.first_stage + index),
                                  static_cast<std::uint64_t>(micro_batch)),
                      device_);
    }
    if (is_divided && index > 0) {
      graphs.back().end(payload);
      const auto needs = parallel::gradient_needs(payload);
      payload = graphs.emplace_back().begin(std::move(payload), needs);
    }
    payload = part.stages[index].forward(std::move(payload));
  }
  return payload;
}

torch::Tensor PipelineStep::State::loss_of(Run& run, StagePayload outputs, int micro_batch) {
  if (outputs.size() != 1) {
    throw Error(fmt::format("parallel: pipeline: the last stage makes {} tensors, expected one",
                            outputs.size()));
  }
  const auto [loss, sums] = run.batch.loss(outputs.front(), micro_batch);
  if (options_.sums > 0) run.sums.add_(sums.detach());
  if (run.backward == nullptr) return {};
  if (!loss.requires_grad()) {
    throw Error(
        fmt::format("parallel: pipeline: the loss of micro-batch {} needs no gradient; it must be "
                    "computed from the last stage's output, and something before it be trained",
                    micro_batch));
  }
  const auto part_of_mean = loss / run.shape.micro_batches;
  return run.backward->scaled ? run.backward->scaled(part_of_mean) : part_of_mean;
}

// In the last pass of each part its gradients are whole.
std::optional<GradientReducer::NoSync> PipelineStep::State::quiet_until_last(
    const Run& run, int micro_batch) const {
  auto* const reducer = run.backward->reducer;
  if (reducer == nullptr || micro_batch + 1 == run.shape.micro_batches) return std::nullopt;
  return std::make_optional<GradientReducer::NoSync>(reducer->no_sync());
}

void PipelineStep::State::backward(Run& run, int part, int micro_batch) {
  const auto pass = run.graphs.find({part, micro_batch});
  auto& graphs = pass->second;
  auto gradients = slopes_of(run, graphs.back(), part, micro_batch);
  const auto span = span_of(PipelineWork::backward, part, micro_batch);
  const auto quiet = quiet_until_last(run, micro_batch);
  if (shape_.has_weight_gradients()) {
    for (auto graph = graphs.rbegin(); graph != graphs.rend(); ++graph)
      gradients = graph->backward_to_inputs(gradients);
  } else {
    gradients = graphs.front().backward(gradients);
    run.graphs.erase(pass);
  }
  if (part > 0) run.gradients[{part, micro_batch}] = std::move(gradients);
}

void PipelineStep::State::weight_gradient(Run& run, int part, int micro_batch) {
  auto graphs = std::move(run.graphs.extract({part, micro_batch}).mapped());
  const auto span = span_of(PipelineWork::weight_gradient, part, micro_batch);
  const auto quiet = quiet_until_last(run, micro_batch);
  for (auto index = graphs.size(); index-- > 0;)
    graphs[index].backward_to_weights(own(part).weights[index]);
}

StagePayload PipelineStep::State::slopes_of(Run& run, const StageGraph& graph, int part,
                                            int micro_batch) {
  if (part + 1 == shape_.stages()) return {torch::ones_like(graph.outputs().front())};
  auto after = run.gradients.extract({part + 1, micro_batch});
  if (!after.empty()) return std::move(after.mapped());
  return receive(run, PipelinePayload::gradient, micro_batch, part + 1).payload;
}

void PipelineStep::State::send(Run& run, const PipelineAction& action) {
  const Pass pass{action.chunk * shape_.ranks + pipe_.rank(), action.micro_batch};
  auto& made = action.payload == PipelinePayload::activation ? run.activations : run.gradients;
  run.exchange.send(run.shape, action, made.extract(pass).mapped());
}

PayloadExchange::Received PipelineStep::State::receive(Run& run, PipelinePayload kind,
                                                       int micro_batch, int sending_part) {
  const auto span = options_.timeline.span(
      kind == PipelinePayload::activation ? "wait for activation" : "wait for gradient",
      "micro-batch", micro_batch);
  return run.exchange.finish_receive(run.shape, kind, micro_batch, sending_part);
}

PipelineStep::PipelineStep(const DeviceMesh& mesh, std::vector<NetworkStage> stages,
                           const PipelineStepOptions& options)
    : state_(std::make_unique<State>(mesh, std::move(stages), options)) {}

PipelineStep::~PipelineStep() = default;

const std::shared_ptr<torch::nn::Module>& PipelineStep::module() const {
  return state_->module_;
}

const PipelineShape& PipelineStep::shape() const {
  return state_->shape_;
}

bool PipelineStep::has_first_part() const {
  return state_->has_part(0);
}

bool PipelineStep::has_last_part() const {
  return state_->has_part(state_->shape_.stages() - 1);
}

torch::Tensor PipelineStep::run(const Batch& batch, std::int64_t step, const Backward& backward) {
  return state_->run(batch, step, backward);
}

torch::Tensor PipelineStep::evaluate(const Batch& batch, int micro_batches) {
  return state_->evaluate(batch, micro_batches);
}

PipelineStep::IdleTime PipelineStep::take_idle_time() {
  return std::exchange(state_->idle_, {});
}

}  // namespace kolo
