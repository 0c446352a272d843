#include <algorithm>
#include <optional>

#include "data/catalogue/dataset_settings.h"

namespace kolo::datasets {

struct Dummy {
  std::vector<std::int64_t> input_shape;
  std::optional<std::int64_t> n_classes;
  std::vector<std::int64_t> target_shape;  // targets are numbers of this shape instead of labels

  void check(const RefuseKey& refuse) const {
    if (input_shape.empty())
      refuse("input_shape", "data dummy needs the shape of one sample, for example [1, 28, 28]");
    check_shape(refuse, "input_shape", input_shape);
    check_shape(refuse, "target_shape", target_shape);
    if (!target_shape.empty() && n_classes)
      refuse("target_shape", "targets are numbers (target_shape) or labels (n_classes), not both");
  }
  void complete() { put_channels_first(input_shape); }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const {
    const auto training = request.n_train.value();
    const auto validation = request.n_valid.value_or(std::max<std::int64_t>(1, training / 8));
    return random_datasets({input_shape, target_shape.empty() ? labels(request) : 0, target_shape},
                           training, validation, request.seed);
  }
  [[nodiscard]] std::string samples() const { return target_shape.empty() ? "images" : "samples"; }
  [[nodiscard]] Datasets imitate(const DatasetRequest& request, std::int64_t) const {
    return make(request);
  }

 private:
  // Unless the data says, there are as many labels as the network tells apart.
  [[nodiscard]] std::int64_t labels(const DatasetRequest& request) const {
    if (n_classes) return *n_classes;
    const auto outputs = request.model_classes.value_or(10);
    return outputs == 1 ? 2 : outputs;
  }
};

template <typename Field>
void visit(Field& field, Dummy& dummy) {
  field("input_shape", dummy.input_shape, positive.up_to(most_of_a_kind));
  field("n_classes", dummy.n_classes, positive.up_to(most_of_a_kind), Unset{"the model's, or 10"});
  field("target_shape", dummy.target_shape, positive.up_to(most_of_a_kind));
}

DatasetEntry dummy() {
  auto entry = entry_of<Dummy>("dummy", "random samples");
  entry.needs_n_train = "data dummy needs the number of samples to make, for example 2048";
  return entry;
}

}  // namespace kolo::datasets
