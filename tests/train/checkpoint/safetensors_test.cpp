#include "kolo/train/checkpoint/safetensors.h"

#include <array>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// A file with this header (its length in front unless another is given) and `data_size` zero bytes
// after it.
std::string file_with(const std::string& header, std::size_t data_size, std::uint64_t length) {
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data_size, '\0');
}

std::string file_with(const std::string& header, std::size_t data_size) {
  return file_with(header, data_size, header.size());
}

std::string rejection(const std::string& content) {
  const TemporaryFolder folder;
  const auto path = folder.write("bad.safetensors", content);
  const auto from_reading = message_of<Error>([&] { (void)read_safetensors(path); });
  EXPECT_TRUE(says(from_reading, {"bad.safetensors"}));
  EXPECT_EQ(from_reading, message_of<Error>([&] { (void)list_safetensors(path); }));
  return from_reading;
}

std::string tensor_header(const std::string& fields) {
  return "{\"weight\":{" + fields + "}}";
}

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const auto left = a.contiguous();
  const auto right = b.contiguous();
  return left.scalar_type() == right.scalar_type() && left.sizes() == right.sizes() &&
         (left.numel() == 0 ||  // then there may be no memory at all
          std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0);
}

TEST(Safetensors, EveryDtypeComesBackBitForBitInOrder) {
  torch::manual_seed(1);
  const std::array dtypes{torch::kBool,   torch::kChar,    torch::kHalf, torch::kByte,
                          torch::kDouble, torch::kLong,    torch::kInt,  torch::kFloat,
                          torch::kShort,  torch::kBFloat16};
  std::vector<NamedTensor> tensors;
  for (const auto dtype : dtypes) {
    const auto values = torch::randn({3, 5}) * 50;
    const auto tensor = dtype == torch::kBool ? values > 0 : values.to(dtype);
    tensors.push_back({std::string("of ") + c10::toString(dtype), tensor});
  }
  const TemporaryFolder folder;
  write_safetensors(folder / "all", tensors);
  const auto read = read_safetensors(folder / "all");
  ASSERT_EQ(read.size(), tensors.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, tensors[i].name);
    EXPECT_TRUE(same_bits(read[i].tensor, tensors[i].tensor)) << read[i].name;
  }
}

TEST(Safetensors, OddShapesStridesAndValues) {
  const auto grid = torch::arange(24, torch::kFloat).view({4, 6});
  const auto infinite = std::numeric_limits<float>::infinity();
  const std::vector<NamedTensor> tensors{
      {"zero-dim", torch::tensor(3.5)},
      {"empty", torch::empty({0})},
      {"empty in the middle", torch::empty({2, 0, 3}, torch::kLong)},
      {"transposed", grid.t()},
      {"strided", grid.slice(1, 1, 6, 2)},
      {"expanded", torch::ones({1, 3}).expand({5, 3})},
      {"channels last", torch::rand({2, 3, 4, 4}).contiguous(torch::MemoryFormat::ChannelsLast)},
      {"with gradient", torch::ones({2}, torch::requires_grad())},
      {"not finite", torch::tensor({infinite, -infinite, std::nanf("")})},
      {"quote \" and žluťoučký", torch::ones({1})}};
  const TemporaryFolder folder;
  write_safetensors(folder / "odd", tensors);
  const auto read = read_safetensors(folder / "odd");
  ASSERT_EQ(read.size(), tensors.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, tensors[i].name);
    EXPECT_TRUE(same_bits(read[i].tensor, tensors[i].tensor.detach())) << read[i].name;
    EXPECT_TRUE(read[i].tensor.is_contiguous());
    EXPECT_FALSE(read[i].tensor.requires_grad());
  }
}

TEST(Safetensors, NoTensorsAtAll) {
  const TemporaryFolder folder;
  write_safetensors(folder / "none", {});
  EXPECT_TRUE(read_safetensors(folder / "none").empty());
}

// The bytes as the format's description has them, so that other programs can read what is written
// here.
TEST(Safetensors, BytesOnDisk) {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors{{"b", torch::tensor({7}, torch::kByte)},
                                         {"a", torch::tensor({258}, torch::kInt)}};
  write_safetensors(folder / "file", tensors);
  std::string header = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]},)"
                       R"("a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string expected = file_with(header, 0);
  expected += std::string("\x02\x01\x00\x00\x07", 5);
  EXPECT_EQ(read_text_file(folder / "file"), expected);
}

TEST(Safetensors, ListingReadsTheHeaderAlone) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__":{"epoch":"7"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  const auto listing = list_safetensors(folder.write("file", file_with(header, 24)));
  ASSERT_EQ(listing.tensors.size(), 1U);
  EXPECT_EQ(listing.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(listing.tensors[0].dtype, torch::kFloat);
  EXPECT_EQ(listing.tensors[0].end - listing.tensors[0].begin, 24U);
  EXPECT_EQ(listing.data_offset + 24, std::filesystem::file_size(folder / "file"));
}

TEST(Safetensors, RefusesToWriteWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const auto refusal = [&](std::vector<NamedTensor> tensors) {
    const auto message = message_of<Error>([&] { write_safetensors(folder / "f", tensors); });
    EXPECT_FALSE(std::filesystem::exists(folder / "f"));
    return message;
  };
  const auto one = torch::ones({1});
  EXPECT_TRUE(
      says(refusal({{"z", torch::ones({1}, torch::kComplexFloat)}}), {"\"z\"", "dtype", "BF16"}));
  EXPECT_TRUE(says(refusal({{"s", one.to_sparse()}}), {"sparse"}));
  EXPECT_TRUE(says(refusal({{"u", torch::Tensor()}}), {"undefined"}));
  EXPECT_TRUE(says(refusal({{"", one}}), {"no name"}));
  EXPECT_TRUE(says(refusal({{"__metadata__", one}}), {"reserves"}));
  EXPECT_TRUE(says(refusal({{"twin", one}, {"twin", one}}), {"\"twin\" is given twice"}));
  EXPECT_TRUE(says(refusal({{"\xff", one}}), {"UTF-8"}));
}

TEST(Safetensors, RejectsABadLength) {
  EXPECT_TRUE(says(rejection("1234"), {"too few for the header's length"}));
  EXPECT_TRUE(says(rejection(file_with("{}", 0, 3)), {"length is 3 bytes"}));
  EXPECT_TRUE(says(rejection(file_with("{}", 0, ~std::uint64_t{0})), {"length is"}));
}

TEST(Safetensors, RejectsMalformedJson) {
  const std::pair<std::string, const char*> cases[] = {{"", "not valid JSON"},
                                                       {"{\"a\":", "not valid JSON"},
                                                       {"{} {}", "not valid JSON"},
                                                       {"{\"\xff\":1}", "not valid JSON"},
                                                       {std::string(200000, '['), "not valid JSON"},
                                                       {"[]", "is array, expected an object"},
                                                       {"{\"weight\":[]}", "\"weight\" is array"}};
  for (const auto& [header, problem] : cases)
    EXPECT_TRUE(says(rejection(file_with(header, 1)), {problem}));
}

TEST(Safetensors, RejectsBadFieldsAndNamesThem) {
  const struct {
    const char* fields;
    std::size_t data_size;
    const char *field, *problem;
  } cases[] = {{R"("shape":[1],"data_offsets":[0,4])", 4, "dtype", "is missing"},
               {R"("dtype":4,"shape":[1],"data_offsets":[0,4])", 4, "dtype", "is number"},
               {R"("dtype":"F32","data_offsets":[0,4])", 4, "shape", "is missing"},
               {R"("dtype":"F32","shape":1,"data_offsets":[0,4])", 4, "shape", "is number"},
               {R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4, "shape", "holds -1"},
               {R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])", 4, "shape", "holds 1.0"},
               {R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4])", 4, "shape",
                "holds 18446744073709551615"},
               {R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0, "shape",
                "overflow"},
               {R"("dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0])", 0,
                "shape", "overflow"},
               {R"("dtype":"F32","shape":[1])", 4, "data_offsets", "is missing"},
               {R"("dtype":"F32","shape":[1],"data_offsets":[0])", 4, "data_offsets", "has 1"},
               {R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4, "data_offsets",
                "[4, 0] runs backwards"},
               {R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 4, "data_offsets",
                "[0, 8] ends after the file's 4 bytes"},
               {R"("dtype":"F32","shape":[1],"data_offsets":[0,8])", 8, "data_offsets",
                "[0, 8] spans 8 bytes, but the shape [1] takes 4"}};
  for (const auto& [fields, data_size, field, problem] : cases)
    EXPECT_TRUE(says(rejection(file_with(tensor_header(fields), data_size)),
                     {fmt::format("tensor \"weight\" field \"{}\"", field), problem}));
}

TEST(Safetensors, RejectsHolesOverlapsAndSpareData) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" + first +
           "},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" + second + "}}";
  };
  EXPECT_TRUE(says(rejection(file_with(two("[0,2]", "[1,3]"), 3)), {"tensor \"b\"", "overlaps"}));
  EXPECT_TRUE(says(rejection(file_with(two("[3,5]", "[0,2]"), 5)),
                   {"tensor \"a\"", "leaves a hole after"}));
  EXPECT_TRUE(says(rejection(file_with(two("[0,2]", "[2,4]"), 5)),
                   {"5 bytes of data follow the header, but its tensors take 4"}));
}

// Tensors that can't be read are refused where they are asked for, and nowhere else.
TEST(Safetensors, TypesThatCannotBeReadKeepNobodyFromTheOthers) {
  const TemporaryFolder folder;
  for (const auto& [type, bytes] : std::vector<std::pair<std::string, int>>{
           {"U16", 2}, {"U32", 4}, {"U64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F31", 3}}) {
    SCOPED_TRACE(type);
    const auto header =
        fmt::format(R"({{"odd":{{"dtype":"{}","shape":[2],"data_offsets":[0,{}]}},)"
                    R"("last":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}}}})",
                    type, 2 * bytes, 2 * bytes, 2 * bytes + 1);
    auto content = file_with(header, static_cast<std::size_t>(2 * bytes) + 1);
    content.back() = 7;
    const auto path = folder.write("file", content);
    const auto listing = list_safetensors(path);
    ASSERT_EQ(listing.tensors.size(), 2U);
    EXPECT_EQ(listing.tensors[0].dtype, c10::ScalarType::Undefined);
    EXPECT_EQ(listing.tensors[0].type_name, type);
    EXPECT_EQ(listing.tensors[1].type_name, "U8");

    const auto names = AllOf(HasSubstr("tensor \"odd\" field \"dtype\" is \"" + type + "\""),
                             HasSubstr("expected one of F64 F32"));
    EXPECT_THAT(message_of<Error>([&] { (void)read_safetensors(path); }), names);
    const auto chosen = [&](std::string_view name) {
      return read_chosen_safetensors(path, [&](const auto& entry) { return entry.name == name; });
    };
    EXPECT_THAT(message_of<Error>([&] { (void)chosen("odd"); }), names);
    const auto last = chosen("last");
    ASSERT_EQ(last.size(), 1U);
    EXPECT_EQ(last[0].tensor.item<int>(), 7);
  }
  EXPECT_TRUE(says(
      rejection(file_with(
          tensor_header(R"("dtype":"F4","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
          0)),
      {"overflow"}));
}

TEST(Safetensors, RejectsABoolThatIsNone) {
  const TemporaryFolder folder;
  auto content = file_with(tensor_header(R"("dtype":"BOOL","shape":[2],"data_offsets":[0,2])"), 2);
  content.back() = 2;
  const auto path = folder.write("file", content);
  EXPECT_TRUE(says(message_of<Error>([&] { (void)read_safetensors(path); }), {"neither 0 nor 1"}));
}

// Whatever byte of the header changes, reading ends in an Error or in tensors, never in anything
// else.
TEST(Safetensors, SurvivesEveryFlippedHeaderByte) {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors{{"w", torch::ones({2, 3})},
                                         {"b", torch::ones({2}, torch::kLong)}};
  write_safetensors(folder / "good", tensors);
  const auto good = read_text_file(folder / "good");
  const auto header_end = list_safetensors(folder / "good").data_offset;
  for (std::size_t i = 0; i < header_end; ++i) {
    for (const int flip : {0x01, 0x10, 0x80}) {
      auto bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      const auto path = folder.write("bad", bad);
      try {
        (void)read_safetensors(path);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace kolo::testing
