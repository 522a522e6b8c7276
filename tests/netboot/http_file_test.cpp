// Ranges, heads and answers for boot files, without a socket.
#include "netboot/file_answer.hpp"
#include "netboot/http/byte_range.hpp"
#include "netboot/http/request_head.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

namespace ductl::netboot {
namespace {

using http::ByteRange;
using http::parse_byte_range;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_part(std::string_view header, std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
  const ByteRange range = parse_byte_range(header, size);
  EXPECT_EQ(range.kind, ByteRange::Kind::Part) << header;
  EXPECT_EQ(range.offset, offset) << header;
  EXPECT_EQ(range.length, length) << header;
}

TEST(ByteRange, OneRange) {
  expect_part("bytes=0-0", 10, 0, 1);
  expect_part("bytes=0-9", 10, 0, 10);
  expect_part("bytes=3-5", 10, 3, 3);
  expect_part("bytes=3-", 10, 3, 7);
  expect_part("bytes=9-100", 10, 9, 1);
  expect_part("bytes=-4", 10, 6, 4);
  expect_part("bytes=-400", 10, 0, 10);
  expect_part(" bytes=1-2 ", 10, 1, 2);
  expect_part("bytes=5-99999999999999999999999999", 10, 5, 5);
}

TEST(ByteRange, Unsatisfiable) {
  for (const auto& [header, size] : {std::pair{"bytes=10-", 10u},
                                     {"bytes=10-20", 10u},
                                     {"bytes=-0", 10u},
                                     {"bytes=0-", 0u},
                                     {"bytes=-5", 0u},
                                     {"bytes=99999999999999999999-", 10u}})
    EXPECT_EQ(parse_byte_range(header, size).kind, ByteRange::Kind::Unsatisfiable) << header;
}

TEST(ByteRange, WhatIsNotUnderstoodIsTheWhole) {
  for (const char* header : {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5", "bytes=5-3", "bytes=1-2,4-5", "bytes=+1-2",
                             "bytes=1--2", "lines=1-2", "Bytes=1-2", "bytes= 1 - 2", "bytes=0x1-2"}) {
    const ByteRange range = parse_byte_range(header, 10);
    EXPECT_EQ(range.kind, ByteRange::Kind::Whole) << header;
    EXPECT_EQ(range.length, 10u);
  }
}

TEST(RequestHead, OfUefiHttpBootAndIpxe) {
  const auto uefi = http::parse_request_head(
      "HEAD /duck.efi HTTP/1.1\r\nHost: 10.21.1.1\r\nUser-Agent: UefiHttpBoot/1.0\r\nAccept: */*\r\n\r\n");
  ASSERT_TRUE(uefi);
  EXPECT_EQ(uefi->request.method, "GET");
  EXPECT_TRUE(uefi->form.head_only);
  EXPECT_TRUE(uefi->form.keep_alive);
  EXPECT_EQ(uefi->request.path, "/duck.efi");
  const auto ipxe = http::parse_request_head(
      "GET /boot.ipxe HTTP/1.1\r\nConnection: keep-alive\r\nUser-Agent: iPXE/1.0.0+\r\nHost: 10.21.1.1\r\n\r\n");
  ASSERT_TRUE(ipxe);
  EXPECT_FALSE(ipxe->form.head_only);
  EXPECT_EQ(ipxe->request.header("user-agent"), "iPXE/1.0.0+");
}

TEST(RequestHead, OldAndClosingOnes) {
  EXPECT_FALSE(http::parse_request_head("GET / HTTP/1.0\r\n\r\n")->form.keep_alive);
  EXPECT_FALSE(http::parse_request_head("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")->form.keep_alive);
}

TEST(RequestHead, Refusals) {
  EXPECT_EQ(http::parse_request_head("GET / HTTP/1.1\r\n\r\n").error(), 400);
  EXPECT_EQ(http::parse_request_head("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").error(), 400);
  EXPECT_EQ(http::parse_request_head("GET a HTTP/1.1\r\nHost: a\r\n\r\n").error(), 400);
  EXPECT_EQ(http::parse_request_head("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n").error(), 400);
  EXPECT_EQ(http::parse_request_head("nonsense\r\n\r\n").error(), 400);
  EXPECT_EQ(http::parse_request_head("GET / HTTP/1.1\r\nHost: a\r\n").error(), 400);
  EXPECT_EQ(http::parse_request_head("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").error(), 413);
  EXPECT_EQ(http::parse_request_head("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").error(), 413);
}

struct Lab {
  Lab() { files.add("duck.efi", BootFile::from_bytes(bytes_of("0123456789")).value()); }
  FileAnswer get(const std::string& path, const std::string& headers = "", const std::string& method = "GET") {
    const auto head = http::parse_request_head(method + " " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n");
    return answer_file_request(head.value().request, head.value().form, files);
  }
  BootFiles files;
};

TEST(FileAnswer, GetAndHead) {
  Lab lab;
  const FileAnswer get = lab.get("/duck.efi"), head = lab.get("/duck.efi", "", "HEAD");
  EXPECT_EQ(get.status, 200);
  ASSERT_TRUE(get.file);
  EXPECT_EQ(get.offset, 0u);
  EXPECT_EQ(get.length, 10u);
  EXPECT_EQ(get.bytes, head.bytes);
  EXPECT_THAT(get.bytes, HasSubstr("Content-Length: 10\r\n"));
  EXPECT_THAT(get.bytes, HasSubstr("Content-Type: application/efi\r\n"));
  EXPECT_FALSE(head.file);
  EXPECT_EQ(head.length, 0u);
}

TEST(FileAnswer, ByContentHash) {
  Lab lab;
  EXPECT_EQ(lab.files.hashed_name("duck.efi"),
            "sha256/84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882/duck.efi");
  EXPECT_EQ(lab.get("/" + lab.files.hashed_name("duck.efi")).status, 200);
  EXPECT_EQ(lab.get("/sha256/84d89877/duck.efi").status, 404);
}

TEST(FileAnswer, Ranges) {
  Lab lab;
  const FileAnswer part = lab.get("/duck.efi", "Range: bytes=2-4\r\n");
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.offset, 2u);
  EXPECT_EQ(part.length, 3u);
  EXPECT_THAT(part.bytes, HasSubstr("Content-Range: bytes 2-4/10\r\n"));
  EXPECT_THAT(part.bytes, HasSubstr("Content-Length: 3\r\n"));
  const FileAnswer none = lab.get("/duck.efi", "Range: bytes=10-\r\n");
  EXPECT_EQ(none.status, 416);
  EXPECT_FALSE(none.file);
  EXPECT_THAT(none.bytes, HasSubstr("Content-Range: bytes */10\r\n"));
  EXPECT_EQ(lab.get("/duck.efi", "Range: bytes=2-4\r\n", "HEAD").status, 200); // RFC 9110: of GET only
  EXPECT_EQ(lab.get("/duck.efi", "Range: bytes=2-4\r\nIf-Range: \"another\"\r\n").status, 200);
  EXPECT_EQ(lab.get("/duck.efi",
                    "Range: bytes=2-4\r\nIf-Range: \"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882\"\r\n")
                .status,
            206);
}

TEST(FileAnswer, Refusals) {
  Lab lab;
  EXPECT_EQ(lab.get("/").status, 404);
  EXPECT_EQ(lab.get("/../etc/passwd").status, 404);
  EXPECT_EQ(lab.get("//duck.efi").status, 404);
  EXPECT_EQ(lab.get("/%64uck.efi").status, 200); // decoded once
  EXPECT_EQ(lab.get("/%2564uck.efi").status, 404);
  const FileAnswer post = lab.get("/duck.efi", "", "POST");
  EXPECT_EQ(post.status, 405);
  EXPECT_THAT(post.bytes, HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_THAT(lab.get("/nothing", "", "HEAD").bytes, Not(HasSubstr("{")));
}

TEST(BootFileTest, IsFrozenWhenItIsRead) {
  const auto file = BootFile::from_bytes(bytes_of("abc")).value();
  EXPECT_EQ(text_of(file->bytes()), "abc");
  EXPECT_EQ(::ftruncate(file->descriptor(), 1), -1);
  EXPECT_EQ(::pwrite(file->descriptor(), "x", 1, 0), -1);
  EXPECT_TRUE(BootFile::from_bytes({}).value()->bytes().empty());
}

TEST(BootFileTest, WhatCannotBeReadIsAnError) {
  const auto missing = BootFile::from_disk("/nonexistent/duck.efi");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code_name(), "D0611");
  EXPECT_EQ(missing.error().place, "/nonexistent/duck.efi");
  EXPECT_FALSE(missing.error().next.empty());
  EXPECT_FALSE(BootFile::from_disk("/tmp"));
}

} // namespace
} // namespace ductl::netboot
