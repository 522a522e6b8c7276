// The body of a chat request: what is taken, and how what isn't is named.
#include "engine/server/access.hpp"
#include "engine/server/chat_request.hpp"

#include <gmock/gmock.h>

namespace ductl::engine {
namespace {

using testing::HasSubstr;

constexpr const char* kHi = R"("messages":[{"role":"user","content":"hi"}])";
std::string body(const std::string& fields) { return std::string("{") + kHi + "," + fields + "}"; }

TEST(ChatRequest, TheLeastThereIsHasOpenAisDefaults) {
  const auto request = parse_chat_request(std::string("{") + kHi + "}");
  ASSERT_TRUE(request) << request.error().text();
  EXPECT_EQ(request->model, "");
  EXPECT_EQ(request->sampling.temperature, 1);
  EXPECT_EQ(request->sampling.top_p, 1);
  EXPECT_FALSE(request->seed);
  EXPECT_EQ(request->output_tokens_max, 0);
  EXPECT_FALSE(request->stream);
  ASSERT_EQ(request->messages.size(), 1u);
  EXPECT_EQ(request->messages[0].content, "hi");
}

TEST(ChatRequest, ContentMayComeInPartsOfText) {
  const auto request = parse_chat_request(
      R"({"messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})");
  ASSERT_TRUE(request) << request.error().text();
  EXPECT_EQ(request->messages[0].role, "system");
  EXPECT_EQ(request->messages[1].content, "ab");
}

TEST(ChatRequest, TheNewerWordForTheLengthCounts) {
  EXPECT_EQ(parse_chat_request(body(R"("max_tokens":5)"))->output_tokens_max, 5);
  EXPECT_EQ(parse_chat_request(body(R"("max_tokens":5,"max_completion_tokens":6)"))->output_tokens_max, 6);
  EXPECT_EQ(parse_chat_request(body(R"("max_tokens":null)"))->output_tokens_max, 0);
}

TEST(ChatRequest, SeedsOfBothSignsAndFullWidthAreTaken) {
  EXPECT_EQ(parse_chat_request(body(R"("seed":-1)"))->seed, ~std::uint64_t{0});
  EXPECT_EQ(parse_chat_request(body(R"("seed":18446744073709551615)"))->seed, ~std::uint64_t{0});
  EXPECT_EQ(parse_chat_request(body(R"("top_k":-1)"))->sampling.top_k, 0);
}

TEST(ChatRequest, WhatChangesNothingIsIgnored) {
  for (const char* fields :
       {R"("user":"me","metadata":{},"store":false,"whatever":[1])", R"("tools":[],"tool_choice":"auto","n":1,"logprobs":false)",
        R"("response_format":{"type":"text"},"logit_bias":{},"frequency_penalty":0.0,"presence_penalty":0)",
        R"("tools":null,"response_format":null,"n":null,"stop":null,"seed":null,"stream":null)", R"("modalities":["text"])"}) {
    const auto request = parse_chat_request(body(fields));
    EXPECT_TRUE(request) << fields << request.error().text();
  }
}

struct Wrong {
  const char* fields;
  const char* field; // named in `place`
};

TEST(ChatRequest, WhatIsWrongOrUnsupportedIsNamed) {
  const Wrong cases[] = {
      {R"("tools":[{"type":"function"}])", "tools"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format"},
      {R"("n":2)", "n"},
      {R"("logprobs":true)", "logprobs"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("logit_bias":{"1":5})", "logit_bias"},
      {R"("frequency_penalty":0.5)", "frequency_penalty"},
      {R"("presence_penalty":-0.5)", "presence_penalty"},
      {R"("guided_json":{})", "guided_json"},
      {R"("chat_template_kwargs":{"enable_thinking":false})", "chat_template_kwargs"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":1e300)", "temperature"},
      {R"("temperature":"1")", "temperature"},
      {R"("top_p":1.5)", "top_p"},
      {R"("min_p":-1e300)", "min_p"},
      {R"("top_k":1.5)", "top_k"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":99999999999)", "top_k"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-186)", "max_tokens"},
      {R"("max_tokens":18446744073709551615)", "max_tokens"},
      {R"("max_completion_tokens":"many")", "max_completion_tokens"},
      {R"("seed":1.5)", "seed"},
      {R"("stop":5)", "stop"},
      {R"("stop":["a",5])", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("model":7)", "model"},
      {R"("messages":[])", "messages"},
      {R"("messages":"hi")", "messages"},
      {R"("messages":["hi"])", "messages[0]"},
      {R"("messages":[{"content":"hi"}])", "messages[0].role"},
      {R"("messages":[{"role":"user"}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":7}])", "messages[0].content"},
      {R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}])", "messages[0].content[0]"},
      {R"("messages":[{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0]"},
      {R"("messages":[{"role":"assistant","content":"","tool_calls":[{}]}])", "messages[0].tool_calls"},
  };
  for (const Wrong& wrong : cases) {
    const auto request = parse_chat_request(body(wrong.fields));
    ASSERT_FALSE(request) << wrong.fields;
    EXPECT_EQ(request.error().code, ErrorCode::kRequestValue);
    EXPECT_EQ(request.error().place, wrong.field) << wrong.fields;
    EXPECT_THAT(request.error().message, HasSubstr(wrong.field));
  }
}

TEST(ChatRequest, WhatIsNoJsonObjectIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"), std::string("{\"messages\":1e999}"),
        std::string("\xFF"), std::string("{\"a\":\"\xC3\x28\"}")}) {
    const auto request = parse_chat_request(text);
    ASSERT_FALSE(request) << text;
    EXPECT_EQ(request.error().code, ErrorCode::kRequestValue);
  }
}

TEST(ChatRequest, DeepNestingIsRefusedBeforeItCosts) {
  const auto request = parse_chat_request(body("\"x\":" + std::string(1'000'000, '[')));
  ASSERT_FALSE(request);
  EXPECT_THAT(request.error().message, HasSubstr("deeper"));
}

TEST(Access, OnlyNamesOfThisMachineAreLoopbackHosts) {
  for (const char* host : {"localhost", "LocalHost:7411", "127.0.0.1", "127.21.3.104:7411", "[::1]", "[::1]:80"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"", "evil.example", "127.0.0.1.evil.example", "127.0.0.1:80:90", "localhost:", "128.0.0.1", "127.0.0",
                           "127.0.0.256", "127.0.0.1.", "localhost.evil", "[::2]", "127.0.0.1:x"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(Access, OnlyTheServersOwnPagesAreOfItsOrigin) {
  EXPECT_FALSE(is_foreign_origin("", "127.0.0.1:7411"));
  EXPECT_FALSE(is_foreign_origin("http://127.0.0.1:7411", "127.0.0.1:7411"));
  EXPECT_FALSE(is_foreign_origin("http://LOCALHOST:7411", "localhost:7411"));
  EXPECT_TRUE(is_foreign_origin("http://localhost:7412", "localhost:7411"));
  EXPECT_TRUE(is_foreign_origin("http://evil.example", "127.0.0.1:7411"));
  EXPECT_TRUE(is_foreign_origin("null", "127.0.0.1:7411"));
}

} // namespace
} // namespace ductl::engine
