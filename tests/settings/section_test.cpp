// Structs from trees of values and back, without a configuration around them.
#include "settings/section.h"

#include "kolo/base/error.h"
#include "settings/yaml/yaml.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::message_of;

enum class Dance { waltz, kolo, polka };

constexpr auto enum_names(Dance) {
  return std::to_array<EnumName<Dance>>({{Dance::waltz, "waltz"},
                                         {Dance::kolo, "kolo"},
                                         {Dance::kolo, "round_dance"},
                                         {Dance::polka, "off"}});
}

struct Evening {
  Dance first = Dance::waltz;
  std::optional<Dance> last;
  std::vector<Dance> others;
  int64_t guests = 4;
};

template <typename Field>
void visit(Field& field, Evening& evening) {
  field("first", evening.first, AnyName{});
  field("last", evening.last, AnyName{}, Unset{"as the first"});
  field("others", evening.others, AnyName{});
  field("guests", evening.guests, positive, Presence::required);
}

Evening read(const std::string& text) {
  Evening evening;
  SectionReader::read_section(read_yaml_text(text, "here"), "", evening, known_settings<Evening>());
  return evening;
}

std::string error(const std::string& text) {
  return message_of<InputError>([&] { (void)read(text); });
}

TEST(EnumNames, EveryNameIsUnderstoodAndTheFirstIsPrinted) {
  EXPECT_EQ(find_named<Dance>("round_dance"), Dance::kolo);
  EXPECT_EQ(find_named<Dance>("tango"), std::nullopt);
  EXPECT_EQ(name_of(Dance::kolo), "kolo");
  EXPECT_THAT(known_names<Dance>(), ElementsAre("waltz", "kolo", "round_dance", "off"));
  EXPECT_EQ(named<Dance>("evening", "dance", "kolo"), Dance::kolo);
  EXPECT_EQ(message_of<InputError>([] { (void)named<Dance>("evening", "dance", "walz"); }),
            "evening: unknown dance \"walz\", expected one of waltz, kolo, round_dance, off; did "
            "you mean \"waltz\"?");
}

TEST(Section, EnumsAreReadInAnyCaseAndWordsOfTruthAreNames) {
  const auto evening = read("{first: Round_Dance, last: off, others: [KOLO, \"off\"], guests: 2}");
  EXPECT_EQ(evening.first, Dance::kolo);
  EXPECT_EQ(evening.last, Dance::polka);
  EXPECT_THAT(evening.others, ElementsAre(Dance::kolo, Dance::polka));
}

TEST(Section, UnknownNamesListTheAccepted) {
  EXPECT_EQ(
      error("{first: walz, guests: 1}"),
      "here: first: expected one of waltz, kolo, round_dance, off, got \"walz\"; did you mean "
      "\"waltz\"?");
  EXPECT_TRUE(says(error("{others: [kolo, 3], guests: 1}"), {"here: others[1]: expected one"}));
  EXPECT_TRUE(says(error("{others: kolo, guests: 1}"),
                   {"others: expected a list of waltz, kolo, round_dance, off, got \"kolo\""}));
}

TEST(Section, WhatIsWrittenIsReadBack) {
  Evening evening{Dance::polka, {}, {Dance::kolo, Dance::waltz}, 7};
  const auto text = write_yaml(TreeWriter::tree_of_section(evening));
  EXPECT_EQ(text, "first: \"off\"\nlast: null  # as the first\nothers: [kolo, waltz]\nguests: 7\n");
  const auto again = read(text);
  EXPECT_EQ(again.first, evening.first);
  EXPECT_EQ(again.last, evening.last);
  EXPECT_EQ(again.others, evening.others);
  EXPECT_EQ(again.guests, evening.guests);
}

TEST(Section, OverridesAreOfTheCommandLineOrOfAnOption) {
  const auto settings = known_settings<Evening>();
  auto root = read_yaml_text("guests: 3", "here");
  apply_override(root, "guests=0", "--guests");
  Evening evening;
  EXPECT_EQ(
      message_of<InputError>([&] { SectionReader::read_section(root, "", evening, settings); }),
      "--guests: guests: expected a whole number greater than 0, got \"0\"");
  EXPECT_TRUE(says(message_of<InputError>([&] { apply_override(root, "guests"); }),
                   {"expected key=value", "got \"guests\""}));
  EXPECT_TRUE(says(message_of<InputError>([&] { apply_override(root, "last="); }),
                   {"write last=null for the default", "leave it out to keep"}));
}

}  // namespace
}  // namespace kolo
