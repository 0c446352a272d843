// How a validation looks at images from several sides.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "kolo/comm/threads.h"
#include "train/training_fixture.h"

namespace kolo {
namespace {

using testing::SmallTraining;

// Something that is not linear, and sees where a pixel is.
class Weighted final : public Network {
 public:
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    return (input.flatten(1).mm(weights_)).square();
  }

 private:
  torch::Tensor weights_ =
      register_parameter("weights", torch::randn({3 * 5 * 4, 2}, torch::kFloat));
};

class ValidationViewsOf : public ::testing::Test {
 protected:
  ValidationViewsOf() { torch::manual_seed(3); }

  [[nodiscard]] torch::Tensor seen(ValidationViews views) {
    Objective objective;
    objective.views = views;
    return forward_for_validation(objective, network_, images_);
  }
  [[nodiscard]] torch::Tensor with_mirror(const torch::Tensor& images) {
    return (network_.forward(images) + network_.forward(images.flip({3}))) / 2;
  }
  // Each pixel that of `pixels` further down and right; what is beyond an edge mirrors what is
  // inside.
  [[nodiscard]] torch::Tensor moved(std::int64_t pixels) const {
    const auto place = [&](std::int64_t at, std::int64_t length) {
      at += pixels;
      return at < 0 ? -at : at >= length ? 2 * (length - 1) - at : at;
    };
    auto result = torch::empty_like(images_);
    for (std::int64_t y = 0; y < images_.size(2); ++y)
      for (std::int64_t x = 0; x < images_.size(3); ++x)
        result.select(2, y).select(2, x).copy_(
            images_.select(2, place(y, images_.size(2))).select(2, place(x, images_.size(3))));
    return result;
  }

  torch::Tensor images_ = torch::randn({6, 3, 5, 4});
  Weighted network_;
};

TEST_F(ValidationViewsOf, ImagesAreAveragedOverTheirMirrorImagesAndMovedOnes) {
  const torch::NoGradGuard no_gradient;
  EXPECT_TRUE(seen(ValidationViews::one).equal(network_.forward(images_)));
  EXPECT_TRUE(seen(ValidationViews::mirrored).allclose(with_mirror(images_), 1e-5, 1e-5));
  const auto expected =
      with_mirror(images_) / 2 + (with_mirror(moved(-1)) + with_mirror(moved(1))) / 4;
  EXPECT_TRUE(seen(ValidationViews::moved).allclose(expected, 1e-5, 1e-5));
}

// A training's validations, those of virtual ranks too, come to what kolo eval comes to.
TEST(ValidationViewsOfATrainer, AreThoseOfAnEvaluation) {
  run_as_threads(2, [](const Communicator& communicator) {
    std::vector<double> losses;
    for (const auto views :
         {ValidationViews::one, ValidationViews::mirrored, ValidationViews::moved}) {
      for (const int virtual_ranks : {0, 2}) {
        SmallTraining training(
            communicator, {.dropout = 0, .views = views, .change = [&](TrainerOptions& options) {
                             options.virtual_ranks = virtual_ranks;
                           }});
        const auto in_training = training.trainer().evaluate(training.validation());
        const auto afterwards =
            evaluate(communicator, training.network(),
                     {.loss = make_loss("cross_entropy"), .views = views}, training.validation());
        EXPECT_EQ(in_training.samples, 37);
        EXPECT_EQ(in_training.correct, afterwards.correct);
        EXPECT_NEAR(in_training.mean_loss(), afterwards.mean_loss(), 1e-6);
        losses.push_back(in_training.mean_loss());
      }
    }
    EXPECT_GT(std::abs(losses[0] - losses[2]), 1e-4);
    EXPECT_GT(std::abs(losses[2] - losses[4]), 1e-4);
  });
}

}  // namespace
}  // namespace kolo
