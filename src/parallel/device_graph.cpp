#include "parallel/device_graph.h"

#include <utility>

namespace kolo::parallel {

namespace {

class Repetition final : public DeviceGraph {
 public:
  explicit Repetition(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  std::function<void()> work_;
};

}  // namespace

std::unique_ptr<DeviceGraph> make_repetition(std::function<void()> work) {
  return std::make_unique<Repetition>(std::move(work));
}

}  // namespace kolo::parallel
