#include "kolo/parallel/pipeline_step.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "kolo/base/clock.h"
#include "kolo/base/enum_names.h"
#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/graph_beginning.h"
#include "kolo/base/random.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/pipeline_stages.h"
#include "parallel/pipeline/payload_exchange.h"

namespace kolo {

namespace {

using parallel::PayloadExchange;

// Autograd graph of one part of a network for one micro-batch; it begins at the received payload.
// backward() takes and returns one gradient per tensor that requires one, undefined for none.
class StageGraph {
 public:
  // The tensors as results of the graph's beginning, where `need_gradients` says so: in the same
  // memory, and such that operations may change them in place.
  [[nodiscard]] StagePayload begin(StagePayload payload, const std::vector<bool>& need_gradients) {
    for (std::size_t i = 0; i < payload.size(); ++i) {
      if (!need_gradients[i]) {
        payload[i] = payload[i].detach();
        continue;
      }
      if (!beginning_) beginning_.emplace();
      payload[i] = beginning_->attach(payload[i]);
    }
    return payload;
  }

  void end(StagePayload outputs) { outputs_ = std::move(outputs); }
  [[nodiscard]] const StagePayload& outputs() const { return outputs_; }

  // Runs backward from the outputs; returns the gradients of begin()'s payload. Frees the graph.
  [[nodiscard]] StagePayload backward(const StagePayload& gradients) {
    torch::autograd::edge_list roots;
    torch::autograd::variable_list slopes;
    std::size_t next = 0;
    for (const auto& output : std::exchange(outputs_, {})) {
      if (!output.requires_grad()) continue;
      const auto& gradient = gradients[next++];
      if (!gradient.defined()) continue;
      roots.push_back(torch::autograd::impl::gradient_edge(output));
      slopes.push_back(gradient);
    }
    if (!roots.empty()) {
      torch::autograd::Engine::get_default_engine().execute(roots, slopes, /*keep_graph=*/false,
                                                            /*create_graph=*/false,
                                                            /*accumulate_grad=*/true);
    }
    return beginning_ ? std::exchange(beginning_, std::nullopt)->take_gradients() : StagePayload();
  }

 private:
  std::optional<GraphBeginning> beginning_;  // none: it begins with data
  StagePayload outputs_;
};

// Facts on which the ranks must agree, in words.
std::string describe_pipeline(const PipelineShape& shape, const PipelineStepOptions& options,
                              std::span<const NetworkStage> stages) {
  std::vector<std::string> names;
  for (const auto& stage : stages) names.push_back(stage.name);
  return fmt::format("schedule {}, {} micro-batches, bounds [{}] of the stages {}",
                     name_of(shape.schedule), shape.micro_batches, fmt::join(options.bounds, ", "),
                     fmt::join(names, ", "));
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

}  // namespace

class PipelineStep::State {
 public:
  State(const DeviceMesh& mesh, std::vector<NetworkStage> stages,
        const PipelineStepOptions& options)
      : shape_{options.schedule, mesh.length(MeshAxis::pipe), options.micro_batches},
        pipe_(mesh.axis(MeshAxis::pipe)),
        options_(options),
        data_rank_(static_cast<std::uint32_t>(mesh.coordinate(MeshAxis::data))) {
    actions_ = pipeline_actions(shape_, pipe_.rank());
    require_one_pipeline(pipe_, describe_pipeline(shape_, options_, stages));
    const auto& bounds = options_.bounds;
    require_parts(stages, bounds);
    if (static_cast<int>(bounds.size()) != shape_.ranks + 1) {
      throw InputError(fmt::format("parallel: pipeline: bounds of {} parts for {} ranks",
                                   bounds.size() - 1, shape_.ranks));
    }
    const auto rank = static_cast<std::size_t>(pipe_.rank());
    first_stage_ = bounds[rank];
    stages_.assign(stages.begin() + static_cast<std::ptrdiff_t>(first_stage_),
                   stages.begin() + static_cast<std::ptrdiff_t>(bounds[rank + 1]));
    module_ = module_of(stages_);
    device_ = device_of(*module_);
    exchange_.emplace(pipe_, device_);
  }

  torch::Tensor run(const Batch& batch, std::int64_t step, const Backward& backward) {
    const torch::AutoGradMode with_gradients(true);
    Run run{batch, &backward, shape_.micro_batches, *exchange_, step};
    carry_out(run, actions_);
    return run.sums;
  }

  // A schedule's list stays feasible without its backward passes.
  torch::Tensor evaluate(const Batch& batch, int micro_batches) {
    const torch::NoGradGuard no_gradient;
    auto shape = shape_;
    shape.micro_batches = micro_batches;
    auto actions = pipeline_actions(shape, pipe_.rank());
    std::erase_if(actions, [](const PipelineAction& action) {
      const bool is_message =
          action.work == PipelineWork::send || action.work == PipelineWork::receive;
      return is_message ? action.payload == PipelinePayload::gradient
                        : action.work != PipelineWork::forward;
    });
    PayloadExchange exchange(pipe_, device_);
    Run run{batch, nullptr, micro_batches, exchange};
    carry_out(run, actions);
    return run.sums;
  }

  [[nodiscard]] bool is_first() const { return pipe_.rank() == 0; }
  [[nodiscard]] bool is_last() const { return pipe_.rank() + 1 == shape_.ranks; }

  std::shared_ptr<torch::nn::Module> module_;
  PipelineShape shape_;
  IdleTime idle_;

 private:
  // State of a list of actions that is carried out.
  struct Run {
    const Batch& batch;
    const Backward* backward = nullptr;  // none: forward alone
    int micro_batches = 1;
    PayloadExchange& exchange;
    std::int64_t step = 0;
    torch::Tensor sums;
    std::map<int, StageGraph> graphs;  // by micro-batch
    StagePayload made;                 // by the last pass, to be sent
  };

  void carry_out(Run& run, std::span<const PipelineAction> actions) {
    const Stopwatch watch;
    run.sums = torch::zeros({options_.sums}, torch::TensorOptions(torch::kDouble).device(device_));
    for (const auto& action : actions) {
      switch (action.work) {
        case PipelineWork::forward:
          forward(run, action.micro_batch);
          break;
        case PipelineWork::backward:
          backward(run, action.micro_batch);
          break;
        case PipelineWork::send:
          run.exchange.send(action, std::exchange(run.made, {}));
          break;
        case PipelineWork::receive:
          run.exchange.post_receive(action);
          break;
      }
    }
    run.exchange.finish_sends();
    idle_.waiting_seconds += run.exchange.take_waiting_seconds();
    idle_.seconds += watch.seconds();
  }

  void forward(Run& run, int micro_batch) {
    StageGraph graph;
    auto payload = input_of(run, graph, micro_batch);
    const auto span = span_of(PipelineWork::forward, micro_batch);
    auto outputs = pass_through(std::move(payload), run, micro_batch);
    if (is_last())
      outputs = {loss_of(run, outputs, micro_batch)};
    else
      run.made = outputs;
    if (run.backward == nullptr) return;
    graph.end(std::move(outputs));
    run.graphs.insert_or_assign(micro_batch, std::move(graph));
  }

  void backward(Run& run, int micro_batch) {
    auto graph = std::move(run.graphs.extract(micro_batch).mapped());
    const auto gradients = slopes_of(run, graph, micro_batch);
    const auto span = span_of(PipelineWork::backward, micro_batch);
    const auto quiet = quiet_until_last(run, micro_batch);
    run.made = graph.backward(gradients);
  }

  [[nodiscard]] StagePayload input_of(Run& run, StageGraph& graph, int micro_batch) {
    if (is_first()) return {run.batch.input(micro_batch)};
    auto [payload, needs] = receive(run, PipelinePayload::activation, micro_batch);
    return graph.begin(std::move(payload), needs);
  }

  [[nodiscard]] StagePayload slopes_of(Run& run, const StageGraph& graph, int micro_batch) {
    if (is_last()) return {torch::ones_like(graph.outputs().front())};
    return receive(run, PipelinePayload::gradient, micro_batch).payload;
  }

  [[nodiscard]] StagePayload pass_through(StagePayload payload, const Run& run,
                                          int micro_batch) const {
    const auto of_step =
        derive_seed(options_.seed, data_rank_, static_cast<std::uint64_t>(run.step));
    for (std::size_t index = 0; index < stages_.size(); ++index) {
      if (run.backward != nullptr) {
        seed_generators(derive_seed(of_step, static_cast<std::uint32_t>(first_stage_ + index),
                                    static_cast<std::uint64_t>(micro_batch)),
                        device_);
      }
      payload = stages_[index].forward(std::move(payload));
    }
    return payload;
  }

  // Gradients are whole in the last pass.
  [[nodiscard]] GradientReducer::NoSync quiet_until_last(const Run& run, int micro_batch) const {
    auto* const reducer = run.backward->reducer;
    const bool is_last_pass = micro_batch + 1 == run.micro_batches;
    return reducer == nullptr || is_last_pass ? nullptr : reducer->no_sync();
  }

  [[nodiscard]] torch::Tensor loss_of(Run& run, const StagePayload& outputs, int micro_batch) {
    if (outputs.size() != 1) {
      throw Error(fmt::format("parallel: pipeline: the last stage makes {} tensors, expected one",
                              outputs.size()));
    }
    const auto [loss, sums] = run.batch.loss(outputs.front(), micro_batch);
    if (options_.sums > 0) run.sums.add_(sums.detach());
    if (run.backward == nullptr) return {};
    if (!loss.requires_grad()) {
      throw Error(fmt::format(
          "parallel: pipeline: the loss of micro-batch {} needs no gradient; it must be "
          "computed from the last stage's output, and something before it be trained",
          micro_batch));
    }
    const auto term_of_mean = loss / run.micro_batches;
    return run.backward->scaled ? run.backward->scaled(term_of_mean) : term_of_mean;
  }

  [[nodiscard]] PayloadExchange::Received receive(Run& run, PipelinePayload kind, int micro_batch) {
    const auto span = options_.timeline.span(
        kind == PipelinePayload::activation ? "wait for activation" : "wait for gradient",
        "micro-batch", micro_batch);
    return run.exchange.finish_receive(kind, micro_batch);
  }

  [[nodiscard]] Timeline::Span span_of(PipelineWork work, int micro_batch) const {
    return options_.timeline.span(name_of(PipelinePass{work, pipe_.rank(), micro_batch}));
  }

  Communicator pipe_;
  PipelineStepOptions options_;
  std::uint32_t data_rank_;
  std::vector<PipelineAction> actions_;
  std::size_t first_stage_ = 0;       // of the network, on this rank
  std::vector<NetworkStage> stages_;  // this rank's
  torch::Device device_ = torch::kCPU;
  std::optional<PayloadExchange> exchange_;  // of steps
};

PipelineStep::PipelineStep(const DeviceMesh& mesh, std::vector<NetworkStage> stages,
                           const PipelineStepOptions& options)
    : state_(std::make_unique<State>(mesh, std::move(stages), options)) {}

PipelineStep::~PipelineStep() = default;

const std::shared_ptr<torch::nn::Module>& PipelineStep::module() const {
  return state_->module_;
}

bool PipelineStep::is_last() const {
  return state_->is_last();
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
