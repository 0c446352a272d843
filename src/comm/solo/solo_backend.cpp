#include <cstring>

#include <fmt/format.h>

#include "comm/device/device_sharing.h"
#include "comm/executor.h"
#include "comm/solo/alone.h"
#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"

namespace kolo {

void execute_alone(const CollectiveCall& call) {
  if (call.input.count != call.output.count) {
    throw Error(fmt::format("comm: {}: rank 0 sends {} {} to rank 0, which expects {}",
                            name_of(call.collective), call.input.count, name_of(call.type),
                            call.output.count));
  }
  if (call.output.bytes() > 0 && call.output.data != call.input.data)
    std::memmove(call.output.data, call.input.data, call.output.bytes());
}

namespace {

class SoloBackend final : public Backend {
 public:
  [[nodiscard]] const Topology& topology() const override { return topology_; }

  [[nodiscard]] Capabilities capabilities() const override {
    return {.backend = "solo", .transport = "none", .asynchronous = false, .concurrent = true};
  }

  void execute(const CollectiveCall& call) override { execute_alone(call); }

  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call) override {
    return {allocate_aligned(static_cast<std::size_t>(call.count))};
  }

  [[nodiscard]] std::shared_ptr<Backend> split(int color, int) override {
    return color < 0 ? nullptr : std::make_shared<SoloBackend>();
  }

  void abort(int, std::string_view) noexcept override {}

 private:
  Topology topology_;
};

}  // namespace

Communicator Communicator::solo(const DeviceOptions& devices) {
  return Communicator(make_device_backend(std::make_shared<SoloBackend>(),
                                          std::make_shared<DeviceSharing>(devices)),
                      std::make_shared<Executor>(false));
}

}  // namespace kolo
