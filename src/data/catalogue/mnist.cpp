#include "kolo/data/mnist.h"

#include "data/catalogue/dataset_settings.h"

namespace kolo::datasets {

Datasets read_mnist(const std::string& folder, const DatasetRequest& request) {
  const auto read = [&](Split split) {
    return at_key(request, "path", [&] { return std::make_shared<MnistDataset>(folder, split); });
  };
  return {first_of_training(request, read(Split::train)),
          first_of_validation(request, read(Split::validation))};
}

struct Mnist {
  std::string path;

  void check(const RefuseKey& refuse) const {
    if (path.empty()) {
      refuse("path",
             "data mnist needs the folder that holds MNIST's four IDX files; kolo data fetch mnist "
             "-o data/mnist gets them");
    }
  }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const {
    return read_mnist(path, request);
  }
  [[nodiscard]] SampleLayout layout(const DatasetRequest&) const { return layout_of_mnist(); }
};

template <typename Field>
void visit(Field& field, Mnist& mnist) {
  field("path", mnist.path, PathText{});
}

DatasetEntry mnist() {
  return entry_of<Mnist>("mnist", "handwritten digits");
}

}  // namespace kolo::datasets
