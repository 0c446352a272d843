#include "data/catalogue/dataset_settings.h"
#include "kolo/data/mnist.h"

namespace kolo::datasets {

struct FashionMnist {
  std::string path;

  void complete() {
    if (path.empty()) path = fashion_mnist_folder;
  }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const {
    return read_mnist(path, request);
  }
  [[nodiscard]] SampleLayout layout(const DatasetRequest&) const { return layout_of_mnist(); }
};

template <typename Field>
void visit(Field& field, FashionMnist& mnist) {
  field("path", mnist.path, PathText{});
}

DatasetEntry fashion_mnist() {
  return entry_of<FashionMnist>("fashion_mnist", "clothes, in MNIST's format; a Debian package");
}

}  // namespace kolo::datasets
