// Boxes of a kolo that was built without FFTW.

#include "kolo/base/error.h"
#include "kolo/tools/generators.h"
#include "support/errors.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

TEST(CosmologyLeftOut, SaysWhatItTakes) {
  EXPECT_FALSE(is_cosmology_built());
  const auto says = AllOf(HasSubstr("built without FFTW"), HasSubstr("KOLO_COSMOLOGY=ON"));
  const CosmologyOptions options;
  EXPECT_THAT(message_of<InputError>([&] { check_cosmology_options(options); }), says);
  EXPECT_THAT(message_of<InputError>([&] { (void)make_cosmology_box(options); }), says);
}

}  // namespace
}  // namespace kolo::testing
