// CUDA's functions over Machine: captures of streams, and graphs.
#include <string>

#include "machine.h"

using fake_cuda::fail;
using fake_cuda::Machine;

namespace {

Machine& machine() {
  return Machine::instance();
}

// A graph, also one that can be played: it lives as long as what owns it or plays it.
using Shared = std::shared_ptr<fake_cuda::Graph>;
Shared& graph_of(void* handle) {
  return *static_cast<Shared*>(handle);
}

// Work that a stream did in the capture, and the stream that began it hasn't waited for.
bool is_joined(const fake_cuda::Capture& capture) {
  for (const auto& [stream, node] : capture.last) {
    const auto known = capture.origin->clock.find(stream);
    if (node > 0 && (known == capture.origin->clock.end() || known->second < node)) return false;
  }
  return true;
}

}  // namespace

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, fake_cuda::capture_mode());
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(machine().mutex);
  static unsigned long long number = 0;
  auto& on = machine().stream_of(stream);
  if (stream == nullptr)
    return fail(cudaErrorStreamCaptureUnsupported, __func__, "the default stream");
  if (on.capture) return fail(cudaErrorIllegalState, __func__, "it is captured already");
  auto capture = std::make_shared<fake_cuda::Capture>();
  capture->id = ++number;
  capture->mode = mode;
  capture->owner = std::this_thread::get_id();
  capture->origin = &on;
  capture->graph = std::make_shared<fake_cuda::Graph>();
  machine().captures.push_back(capture);
  on.begin(capture);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(machine().mutex);
  *graph = nullptr;
  auto& on = machine().stream_of(stream);
  const auto capture = on.capture;
  if (!capture) return fail(cudaErrorIllegalState, __func__, "it is not captured");
  const bool is_whole = is_joined(*capture);
  std::erase(machine().captures, capture);
  capture->is_over = true;
  for (const auto& [taking_part, node] : capture->last)
    const_cast<fake_cuda::Stream*>(taking_part)->end();
  if (!capture->invalid.empty())
    return fail(cudaErrorStreamCaptureInvalidated, __func__, capture->invalid);
  if (!is_whole)
    return fail(cudaErrorStreamCaptureUnjoined, __func__,
                "a stream took part that it has not waited for");
  fake_cuda::tell("captured a graph of " + std::to_string(capture->graph->nodes.size()) + " nodes");
  *graph = reinterpret_cast<cudaGraph_t>(new Shared(capture->graph));
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  machine().need_context(__func__);
  const std::lock_guard lock(machine().mutex);
  const auto& capture = machine().stream_of(stream).capture;
  *status = !capture                   ? cudaStreamCaptureStatusNone
            : capture->invalid.empty() ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, std::size_t* count) {
  (void)cudaStreamIsCapturing(stream, status);
  const std::lock_guard lock(machine().mutex);
  const auto& capture = machine().stream_of(stream).capture;
  if (id != nullptr) *id = capture ? capture->id : 0;
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = 0;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* /*nodes*/, std::size_t* count) {
  *count = graph_of(graph)->nodes.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *made = reinterpret_cast<cudaGraphExec_t>(new Shared(graph_of(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(made, graph, flags);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete &graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  (void)machine().submit(machine().stream_of(stream), "a graph", [graph = graph_of(graph)] {
    for (const auto& node : graph->nodes) node();
  });
  return cudaSuccess;
}

}  // extern "C"
