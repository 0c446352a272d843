// make_scripts FOLDER: the networks of these tests, as files of TorchScript: scale.pt, whose output
// is its input times a parameter that is 2.
#include <cstdio>
#include <filesystem>

#include <torch/script.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_scripts FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  torch::jit::Module scale("scale");
  scale.register_parameter("factor", torch::full({1}, 2.0F).requires_grad_(), false);
  scale.define("def forward(self, x):\n  return x * self.factor\n");
  scale.save((folder / "scale.pt").string());
  return 0;
}
