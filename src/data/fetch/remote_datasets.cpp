#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/suggest.h"
#include "kolo/data/fetch.h"

namespace kolo {

std::vector<RemoteDataset> remote_datasets() {
  return {
      {.name = "mnist",
       .url = "https://ossci-datasets.s3.amazonaws.com/mnist",
       .files = {{"train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422},
                 {"train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28881},
                 {"t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1648877},
                 {"t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4542}},
       .instead =
           "without a network, apt install dataset-fashion-mnist and data.name=fashion_mnist"},
      {.name = "fashion-mnist",
       .url = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
       .files = {{"train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880},
                 {"train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29515},
                 {"t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4422102},
                 {"t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5148}},
       .instead = "without a network, Debian's package has it: apt install dataset-fashion-mnist"},
      {.name = "cifar10",
       .url = "https://www.cs.toronto.edu/~kriz",
       .files = {{"cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", 170052171}},
       .archive_folder = "cifar-10-batches-bin",
       .members = {"batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                   "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"},
       .instead =
           "without a network, kolo data cifar10 --from fashion-mnist -o data/cifar10 makes a "
           "stand-in"},
  };
}

RemoteDataset remote_dataset(std::string_view name) {
  const auto all = remote_datasets();
  const auto found = std::ranges::find(all, name, &RemoteDataset::name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const auto& dataset : all) names.push_back(dataset.name);
  throw InputError(
      fmt::format("fetch: no data set \"{}\" is known; expected one of {}", name, join(names)));
}

}  // namespace kolo
