#include "kolo/data/array_file.h"

#include <tuple>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/data/box_files.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

// A file of this version with this header and so many bytes after it.
std::string npy_bytes(std::string_view header, std::size_t data_bytes, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(version), '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    bytes.push_back(static_cast<char>(header.size() >> (8 * i) & 255));
  }
  return bytes.append(header).append(data_bytes, '\0');
}

std::string header_of(std::string_view shape, std::string_view type = "'<f4'",
                      std::string_view order = "False") {
  return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}\n", type, order, shape);
}

class Npy : public ::testing::Test {
 protected:
  NpyHeader read(std::string_view content) const {
    return read_npy_header(folder.write("file.npy", content));
  }
  std::string rejection(std::string_view content) const {
    const auto message = message_of<InputError>([&] { (void)read(content); });
    EXPECT_TRUE(says(message, {(folder / "file.npy").string()}));
    return message;
  }
  // The rejection of a header of version 1 with 24 bytes of numbers after it.
  std::string header_rejection(std::string_view header) const {
    return rejection(npy_bytes(header, 24));
  }
  TemporaryFolder folder;
};

TEST_F(Npy, ReadsAllVersions) {
  for (const int version : {1, 2, 3}) {
    const auto header = read(npy_bytes(header_of("(2, 3)"), 24, version));
    EXPECT_THAT(header.shape, ElementsAre(2, 3));
    EXPECT_EQ(header.data_offset,
              static_cast<std::int64_t>((version == 1 ? 10 : 12) + header_of("(2, 3)").size()));
  }
}

TEST_F(Npy, ReadsWhatPythonWrites) {
  EXPECT_THAT(read(npy_bytes(header_of("(6,)"), 24)).shape, ElementsAre(6));
  EXPECT_THAT(read(npy_bytes(header_of("()"), 4)).shape, ElementsAre());
  EXPECT_THAT(read(npy_bytes(header_of("(0, 3)"), 0)).shape, ElementsAre(0, 3));
  EXPECT_THAT(
      read(npy_bytes("{\"shape\":(1,2,),\"fortran_order\":False , 'descr':'<f4'}   \n", 8)).shape,
      ElementsAre(1, 2));
  const std::vector<std::int64_t> shape{3, 1, 2, 4};
  EXPECT_EQ(read(npy_header_bytes(shape) + std::string(96, '\0')).shape, shape);
  EXPECT_EQ(npy_header_bytes(shape).size() % 64, 0U);
  EXPECT_EQ(read(npy_header_bytes(std::vector<std::int64_t>{6}) + std::string(24, '\0')).shape,
            std::vector<std::int64_t>{6});
}

TEST_F(Npy, RejectsOtherFiles) {
  EXPECT_TRUE(says(rejection(""), {"begins with ''"}));
  EXPECT_TRUE(says(rejection("PK\x03\x04 an archive"), {"expected \\x93NUMPY"}));
  EXPECT_TRUE(says(rejection("\x93NUMPY"), {"truncated"}));
  EXPECT_TRUE(says(rejection(std::string("\x93NUMPY\x01\x00\x40", 9)), {"truncated"}));
  for (const int version : {0, 4}) {
    EXPECT_TRUE(says(rejection(npy_bytes(header_of("(6,)"), 24, version)), {"version"}));
  }
  auto minor = npy_bytes(header_of("(6,)"), 24);
  minor[7] = 1;
  EXPECT_TRUE(says(rejection(minor), {"1.1, expected 1.0, 2.0 or 3.0"}));
}

TEST_F(Npy, RejectsTypes) {
  for (const auto& [type, said] : {std::pair("'|O'", "Python objects"),
                                   {"'|O'", ".astype('float32')"},
                                   {"'<c8'", "complex numbers"},
                                   {"'<f16'", "long doubles"},
                                   {"'<U3'", "text"},
                                   {"'<M8[s]'", "dates"},
                                   {"'|V2'", "bfloat16"},
                                   {"'>f4'", "which is big-endian; expected"},
                                   {"''", "descr is ''; expected"},
                                   {"[('x', '<f4')]", "structures"},
                                   {"4", "descr is '4'; expected"}})
    EXPECT_TRUE(says(header_rejection(header_of("(6,)", type)), {said}));
  EXPECT_TRUE(says(header_rejection(header_of("(6,)", "'<f4'", "0")), {"True or False"}));
  EXPECT_TRUE(says(header_rejection(header_of("(2, 3)", "'<f4'", "True")),
                   {"fortran_order is True", "numpy.ascontiguousarray(array)"}));
  EXPECT_THAT(read(npy_bytes(header_of("(1, 6)", "'<f4'", "True"), 24)).shape, ElementsAre(1, 6));
}

TEST_F(Npy, ReadsTypes) {
  for (const auto& [type, name, bytes] : {std::tuple("'<f4'", "float32", 4U),
                                          {"'<f2'", "float16", 2},
                                          {"'<u8'", "uint64", 8},
                                          {"'|b1'", "bool", 1},
                                          {"'|i1'", "int8", 1}}) {
    EXPECT_EQ(read(npy_bytes(header_of("(2, 3)", type), 6 * bytes)).type.name(), name);
  }
  EXPECT_THAT(read(npy_bytes(header_of("(2L, 3L)"), 24)).shape, ElementsAre(2, 3));
  // As NumPy writes many columns with names, and as others pad.
  EXPECT_THAT(read(npy_bytes(header_of("(6,)") + std::string(20000, ' '), 24)).shape,
              ElementsAre(6));
  EXPECT_THAT(read(npy_bytes(header_of("(6,)") + std::string(100000, ' '), 24, 2)).shape,
              ElementsAre(6));
}

TEST_F(Npy, RejectsKeys) {
  EXPECT_TRUE(
      says(header_rejection("{'descr': '<f4', 'shape': (6,)}"), {"lacks the key 'fortran_order'"}));
  EXPECT_TRUE(says(header_rejection("{'fortran_order': False, 'shape': (6,)}"), {"'descr'"}));
  EXPECT_TRUE(says(header_rejection("{'descr': '<f4', 'fortran_order': False}"), {"'shape'"}));
  EXPECT_TRUE(says(header_rejection("{'colour': 1, " + header_of("(6,)").substr(1)),
                   {"other keys besides"}));
  for (const auto& header :
       {std::string("{'descr' '<f4'}"), std::string("{'descr': '<f4'"), std::string("{'descr"),
        std::string("[1]"), std::string(), header_of("(6,)") + "x"})
    EXPECT_TRUE(says(header_rejection(header), {"expected a Python dictionary"}));
}

TEST_F(Npy, RejectsShapes) {
  for (const auto* const shape : {"(-6,)", "6", "(6, 'x')", "(99999999999999999999,)", "(1.5,)"})
    EXPECT_TRUE(says(header_rejection(header_of(shape)), {"the shape is", "not negative"}));
  EXPECT_TRUE(says(header_rejection(header_of("(4294967296, 4294967296)")), {"overflows 64 bits"}));
  EXPECT_TRUE(says(header_rejection(header_of("(9223372036854775807,)")), {"overflows"}));
  std::string deep = "(";
  for (int i = 0; i < 33; ++i) deep += "1, ";
  EXPECT_TRUE(says(header_rejection(header_of(deep + ")")), {"at most 32"}));
}

TEST_F(Npy, RejectsSizes) {
  EXPECT_TRUE(says(rejection(npy_bytes(header_of("(6,)"), 23)), {"truncated", "the file has"}));
  EXPECT_TRUE(says(rejection(npy_bytes(header_of("(6,)"), 25)), {"trailing data"}));
  EXPECT_TRUE(
      says(rejection(npy_bytes(std::string((1 << 20) + 1, ' '), 24, 2)), {"at most 1048576"}));
  EXPECT_TRUE(says(rejection(npy_bytes(header_of("(6,)"), 0).substr(0, 20)), {"truncated"}));
  auto lying = npy_bytes(header_of("(6,)"), 24, 2);
  lying[10] = lying[11] = '\xff';
  EXPECT_TRUE(says(rejection(lying), {"header length at offset 8 is 4294901"}));
}

// A pair needs both files.
TEST_F(Npy, RejectsHalfAPair) {
  for (const auto& [name, reason] : {std::pair("x_data.npy", "there is no"),
                                     {"other.npy", "neither X_data.npy nor X_label.npy"}}) {
    folder.write(name, npy_bytes(header_of("(2, 2, 2, 4)"), 128));
    EXPECT_TRUE(says(message_of<InputError>([&] { const BoxFile box(folder / name); }), {reason}));
  }
}

}  // namespace
}  // namespace kolo::testing
