#include "netboot/http/http_server.hpp"
#include "netboot/http/request_target.hpp"

#include <gtest/gtest.h>

namespace ductl::http {
namespace {

TEST(RequestTarget, DecodesPathAndQuery) {
  const auto target = parse_request_target("/a%20b/%C3%A9?x=1&name=a+b%26c&flag&x=2");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/a b/\xC3\xA9");
  EXPECT_EQ(target->query.at("x"), "2");
  EXPECT_EQ(target->query.at("name"), "a b&c");
  EXPECT_EQ(target->query.at("flag"), "");
  EXPECT_EQ(target->query.size(), 3u);
}

TEST(RequestTarget, KeepsPlusInPaths) { EXPECT_EQ(parse_request_target("/a+b")->path, "/a+b"); }

TEST(RequestTarget, RefusesBrokenOnes) {
  for (const char* text : {"", "x", "http://host/x", "/%", "/%4", "/%zz", "/%00", "/%0d%0aX", "/?a=%", "/?%0=1", "/a#b", "*"})
    EXPECT_FALSE(parse_request_target(text)) << text;
}

TEST(RequestTarget, DotsAreOnlyNames) {
  EXPECT_EQ(parse_request_target("/%2e%2e/x")->path, "/../x");
} // routes compare whole paths

TEST(Request, TakesTheBearerTokenInAnyCase) {
  Request request;
  EXPECT_EQ(request.bearer(), "");
  request.headers["authorization"] = "bEaReR  abc";
  EXPECT_EQ(request.bearer(), "abc");
  request.headers["authorization"] = "Basic abc";
  EXPECT_EQ(request.bearer(), "");
  request.headers["authorization"] = "Bearer ";
  EXPECT_EQ(request.bearer(), "");
}

TEST(EqualSecrets, ComparesWholeTexts) {
  EXPECT_TRUE(equal_secrets("abc", "abc"));
  EXPECT_FALSE(equal_secrets("abc", "abd"));
  EXPECT_FALSE(equal_secrets("abc", "ab"));
  EXPECT_FALSE(equal_secrets("", "a"));
}

} // namespace
} // namespace ductl::http
