// How a validation looks at images from several sides.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "kolo/train/objective.h"

namespace kolo {
namespace {

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

}  // namespace
}  // namespace kolo
