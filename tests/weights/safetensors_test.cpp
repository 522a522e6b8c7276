#include "weights/safetensors.hpp"

#include "tests/weights/temporary_checkpoint.hpp"

#include <gmock/gmock.h>

namespace ductl::weights {
namespace {

using test::safetensors_head;
using testing::HasSubstr;

Expected<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size(), "x.safetensors");
}

// A file whose header is `json` and whose buffer has `data_bytes` bytes.
Expected<SafetensorsHeader> parse_header(const std::string& json, std::size_t data_bytes) {
  return parse(safetensors_head(json) + std::string(data_bytes, 'x'));
}

void expect_refused(const Expected<SafetensorsHeader>& result, const std::string& why) {
  ASSERT_FALSE(result.has_value()) << "expected: " << why;
  EXPECT_EQ(result.error().code, ErrorCode::kCheckpointFile);
  EXPECT_THAT(result.error().message, HasSubstr(why));
  EXPECT_EQ(result.error().place, "x.safetensors");
  EXPECT_FALSE(result.error().next.empty());
}

TEST(SafetensorsHeader, a_file_of_two_tensors_and_metadata_is_read_with_offsets_in_the_file) {
  const std::string file =
      test::safetensors_text({{"b", "BF16", {2, 3}, std::string(12, 'b')}, {"a", "F32", {}, std::string(4, 'a')}});
  const auto header = parse(file);
  ASSERT_TRUE(header) << header.error().text();
  ASSERT_EQ(header->tensors.size(), 2u);
  EXPECT_EQ(header->tensors[0].name, "a"); // sorted
  EXPECT_TRUE(header->tensors[0].shape.empty());
  EXPECT_EQ(header->tensors[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header->tensors[1].begin, header->data_begin);
  EXPECT_EQ(header->tensors[0].begin, header->data_begin + 12);
  EXPECT_EQ(header->tensors[0].end, file.size());
}

TEST(SafetensorsHeader, a_tensor_without_elements_and_a_file_without_tensors_are_fine) {
  EXPECT_TRUE(parse_header(R"({"a":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})", 0));
  EXPECT_TRUE(parse_header("{}", 0));
}

TEST(SafetensorsHeader, lengths_that_do_not_fit_the_file_are_refused) {
  expect_refused(parse("1234567"), "only 7 bytes");
  expect_refused(parse(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)), "no safetensors file has more than");
  expect_refused(parse(std::string("\x03\0\0\0\0\0\0\0{}", 10)), "truncated: its header ends at byte 11, the file at byte 10");
  expect_refused(parse(std::string("\0\0\0\0\0\0\0\0", 8)), "does not start with {");
}

TEST(SafetensorsHeader, what_is_not_the_json_of_a_header_is_refused) {
  expect_refused(parse_header(" {}", 0), "does not start with {");
  expect_refused(parse_header("{\"a\":", 0), "not valid JSON");
  expect_refused(parse_header("{\"__metadata__\":3}", 0), "__metadata__");
  expect_refused(parse_header("{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}", 0), "nested deeper than");
  expect_refused(parse_header(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4), "lacks dtype");
}

TEST(SafetensorsHeader, a_name_that_stands_twice_is_refused) {
  expect_refused(
      parse_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                   2),
      "\"a\" stands twice");
}

TEST(SafetensorsHeader, types_shapes_and_offsets_that_do_not_agree_are_refused) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets, std::size_t data) {
    return parse_header(R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", data);
  };
  EXPECT_TRUE(one("F16", "[2,2]", "[0,8]", 8));
  expect_refused(one("F4", "[2,2]", "[0,8]", 8), "dtype \"F4\" is not known");
  expect_refused(one("F16", "[2,-2]", "[0,8]", 8), "not a size");
  expect_refused(one("F16", "[2,2.0]", "[0,8]", 8), "not a size");
  expect_refused(one("F16", "4", "[0,8]", 8), "shape is not a list");
  expect_refused(one("F16", "[4294967296,4294967296,2]", "[0,8]", 8), "larger than 64 bits can count");
  expect_refused(one("F16", "[9223372036854775807]", "[0,8]", 8), "takes");
  expect_refused(one("F16", "[2,2]", "[0]", 8), "not two offsets");
  expect_refused(one("F16", "[2,2]", "[8,0]", 8), "outside the file's 8 bytes");
  expect_refused(one("F16", "[2,2]", "[0,9]", 8), "outside the file's 8 bytes");
  expect_refused(one("F16", "[2,2]", "[0,18446744073709551615]", 8), "outside the file's 8 bytes");
  expect_refused(one("F16", "[2,3]", "[0,8]", 8), "takes 12 bytes, but its offsets hold 8");
}

TEST(SafetensorsHeader, overlaps_and_holes_are_refused) {
  const auto two = [](const std::string& a, const std::string& b, std::size_t data) {
    return parse_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                            R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                        data);
  };
  EXPECT_TRUE(two("[4,8]", "[0,4]", 8));
  expect_refused(two("[0,4]", "[3,7]", 7), "\"b\": its bytes overlap");
  expect_refused(two("[0,4]", "[0,4]", 4), "overlap");
  expect_refused(two("[0,4]", "[5,9]", 9), "1 bytes before it belong to no tensor");
  expect_refused(two("[1,5]", "[5,9]", 9), "1 bytes before it belong to no tensor");
  expect_refused(two("[0,4]", "[4,8]", 10), "the last 2 bytes belong to no tensor");
}

TEST(SafetensorsFile, a_file_cut_short_anywhere_is_refused_when_it_is_opened) {
  const test::TemporaryFolder folder;
  const std::string whole = test::safetensors_text({{"a", "F32", {4}, std::string(16, 'a')}});
  test::write_file(folder.path() / "whole", whole);
  const auto opened = SafetensorsFile::open(folder.path() / "whole");
  ASSERT_TRUE(opened) << opened.error().text();
  EXPECT_EQ((*opened)->view((*opened)->header().tensors.front()).data.size(), 16u);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    test::write_file(folder.path() / "cut", whole.substr(0, size));
    const auto cut = SafetensorsFile::open(folder.path() / "cut");
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().place, (folder.path() / "cut").string());
  }
}

TEST(SafetensorsFile, a_missing_file_and_a_folder_are_errors) {
  const test::TemporaryFolder folder;
  const auto missing = SafetensorsFile::open(folder.path() / "no");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
  EXPECT_FALSE(SafetensorsFile::open(folder.path()));
}

} // namespace
} // namespace ductl::weights
