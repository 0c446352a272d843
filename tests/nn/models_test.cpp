#include "kolo/nn/models.h"

#include <cmath>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

TEST(ModelCatalogue, NamesAreUnique) {
  ModelCatalogue catalogue = built_in_models();
  EXPECT_TRUE(says(message_of<Error>([&] { catalogue.add_entry(catalogue.find("mnist_net")); }),
                   {"a model \"mnist_net\" already"}));
}

TEST(ModelCatalogue, AnUnknownNameGetsASuggestionAndTheList) {
  const ModelOptions options{.input_shape = {1, 28, 28}, .classes = 10};
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)make_network("mnits_net", options); }),
                   {"unknown model \"mnits_net\", expected one of mnist_net, mnist_cnn",
                    "did you mean \"mnist_net\"?"}));
  EXPECT_THAT(message_of<InputError>([&] { (void)make_network("transformer", options); }),
              AllOf(HasSubstr("one of mnist_net, mnist_cnn"), Not(HasSubstr("did you mean"))));
}

TEST(ModelCatalogue, RefusesChoicesThatAModelDoesNotHave) {
  const auto message = [](const char* name, const ModelOptions& options) {
    return message_of<InputError>([&] { (void)make_network(name, options); });
  };
  ModelOptions options{.input_shape = {3, 32, 32}, .classes = 2, .dropout = 0.1};
  EXPECT_TRUE(says(message("resnet50", options),
                   {"dropout is 0.1, but the model has only batch_norm_momentum"}));
  options.dropout = 0;
  EXPECT_NE(make_network("resnet_small", options), nullptr);
  options = {.input_shape = {3, 32, 32}, .classes = 2, .batch_norm_momentum = 0.9};
  EXPECT_TRUE(says(message("cnn", options),
                   {"batch_norm_momentum is 0.9, but the model has only dropout"}));
  options.batch_norm_momentum = 1;
  EXPECT_TRUE(says(message("resnet34", options),
                   {"model resnet34: batch_norm_momentum: expected a number of at least 0 and less "
                    "than 1, got \"1\""}));
  options = {.input_shape = {3, 32, 32}, .classes = 2};
  EXPECT_TRUE(says(message("torchscript", options), {"needs the file that torch.jit.script"}));
}

TEST(ModelCatalogue, ChecksTheOptions) {
  const auto message = [](const ModelOptions& options) {
    return message_of<InputError>([&] { (void)make_network("mnist_net", options); });
  };
  EXPECT_TRUE(says(message({.input_shape = {}, .classes = 10}), {"shape is []"}));
  EXPECT_TRUE(says(message({.input_shape = {1, -28, 28}, .classes = 10}),
                   {"mnist_net: the input's shape is [1, -28, 28]"}));
  EXPECT_TRUE(says(message({.input_shape = {1, 28, 28}, .classes = 0}), {"0 classes"}));
  for (const double dropout : {-0.1, 1.0, std::nan("")}) {
    EXPECT_TRUE(says(message({.input_shape = {1, 28, 28}, .classes = 10, .dropout = dropout}),
                     {"expected a number of at least 0 and less than 1"}));
  }
}

}  // namespace
}  // namespace kolo::testing
