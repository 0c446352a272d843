#include "kolo/nn/torchscript.h"

#include "nn/models/model_parts.h"

namespace kolo::networks {

struct TorchScript {
  std::string file;

  void check(const RefuseKey& refuse) const {
    if (file.empty()) {
      refuse("file", "model torchscript needs the file that torch.jit.script(...).save() wrote");
    }
  }
  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    return make_torchscript_network(file, shapes);
  }
};

template <typename Field>
void visit(Field& field, TorchScript& model) {
  field("file", model.file, PathText{});
}

ModelEntry torchscript() {
  auto entry = entry_of<TorchScript>("torchscript", "a scripted PyTorch classifier from a file");
  entry.keeps_batch_norms = true;
  return entry;
}

}  // namespace kolo::networks
