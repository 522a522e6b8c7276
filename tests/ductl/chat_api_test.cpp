// The client's half of the API: events from bytes cut anywhere, and answers from events.
#include "ductl/commands/chat_api.hpp"
#include "ductl/commands/chat_session.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace ductl::commands {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

using Events = std::vector<std::pair<std::string, std::string>>;

Events events_of(const std::vector<std::string>& pieces) {
  SseParser parser;
  Events events;
  for (const std::string& piece : pieces)
    EXPECT_TRUE(parser.feed(piece, [&](const SseEvent& event) { events.emplace_back(event.type, event.data); }));
  return events;
}

const std::string kStream = "\xef\xbb\xbf: a comment\n\ndata: one\n\nevent: error\r\ndata:two\r\ndata:  three\r\n\r\n"
                            "id: 7\rdata\r\rretry: 5\n\nevent: lost\n\ndata: é漢\n\ndata: never ended\n";
const Events kEvents{{"", "one"}, {"error", "two\n three"}, {"", ""}, {"", "é漢"}};

TEST(SseParser, ReadsEveryForm) { EXPECT_EQ(events_of({kStream}), kEvents); }

TEST(SseParser, EveryCutInTwoGivesTheSame) {
  for (std::size_t cut = 0; cut <= kStream.size(); ++cut)
    EXPECT_EQ(events_of({kStream.substr(0, cut), kStream.substr(cut)}), kEvents) << cut;
}

TEST(SseParser, EveryCutInThreeGivesTheSame) {
  for (std::size_t a = 0; a <= kStream.size(); ++a)
    for (std::size_t b = a; b <= kStream.size(); ++b)
      ASSERT_EQ(events_of({kStream.substr(0, a), kStream.substr(a, b - a), kStream.substr(b)}), kEvents) << a << " " << b;
}

TEST(SseParser, BytesOneByOneGiveTheSame) {
  std::vector<std::string> pieces;
  for (const char byte : kStream) pieces.emplace_back(1, byte);
  EXPECT_EQ(events_of(pieces), kEvents);
}

TEST(SseParser, AnEventWithoutEndIsRefused) {
  SseParser parser;
  const std::string piece(1 << 20, 'x');
  int accepted = 0;
  while (accepted < 100 && parser.feed(piece, [](const SseEvent&) { ADD_FAILURE(); })) ++accepted;
  EXPECT_EQ(accepted, 16);
  EXPECT_FALSE(parser.feed("\n\n", [](const SseEvent&) { ADD_FAILURE(); }));
}

std::string delta(const std::string& text) {
  return "data: " + json{{"choices", {{{"index", 0}, {"delta", {{"content", text}}}, {"finish_reason", nullptr}}}}}.dump() +
         "\n\n";
}

TEST(AnswerReader, CollectsTextUsageAndStatistics) {
  std::string seen;
  AnswerReader reader([&](std::string_view text) { seen += text; });
  EXPECT_TRUE(
      reader.feed("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n" + delta("Par") + ":\n\n" + delta("is.")));
  EXPECT_TRUE(reader.feed("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"ductl\":{\"stats_line\":\"time "
                          "1s\",\"stats\":{\"output_tokens\":2},\"token_csv\":\"a,b\\n\"}}\n\n"));
  EXPECT_TRUE(reader.feed("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2}}\n\n"));
  EXPECT_FALSE(reader.feed("data: [DONE]\n\n")); // there is no more to come
  const auto answer = reader.finish();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->text, "Paris.");
  EXPECT_EQ(seen, "Paris.");
  EXPECT_EQ(answer->finish_reason, "stop");
  EXPECT_EQ(answer->input_tokens, 11);
  EXPECT_EQ(answer->output_tokens, 2);
  EXPECT_EQ(answer->stats_line, "time 1s");
  EXPECT_EQ(answer->stats_json, R"({"output_tokens":2})");
  EXPECT_EQ(answer->token_csv, "a,b\n");
}

TEST(AnswerReader, AnErrorEventEndsTheAnswerWithTheEnginesWords) {
  AnswerReader reader(nullptr);
  EXPECT_FALSE(reader.feed(delta("Par") +
                           "event: error\ndata: {\"error\":{\"message\":\"duck03 is silent in layer 7\",\"ductl_code\":\"D0304\","
                           "\"next\":\"run ductl up\",\"param\":null}}\n\n"));
  const auto answer = reader.finish();
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kDuckDied);
  EXPECT_EQ(answer.error().message, "duck03 is silent in layer 7");
  EXPECT_EQ(answer.error().next, "run ductl up");
}

TEST(AnswerReader, AStreamThatBreaksOffIsAnError) {
  AnswerReader reader(nullptr);
  EXPECT_TRUE(reader.feed(delta("Par")));
  const auto answer = reader.finish();
  ASSERT_FALSE(answer.has_value());
  EXPECT_THAT(answer.error().message, HasSubstr("broke off"));
}

TEST(AnswerReader, OddJsonNeverBreaksIt) {
  for (const char* data :
       {"3", "[]", "null", "{\"choices\":3}", "{\"choices\":[3]}", "{\"choices\":[{\"delta\":{\"content\":4}}]}",
        "{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1e99}}", "{\"ductl\":[]}",
        "{\"choices\":[{\"finish_reason\":7}]}"}) {
    AnswerReader reader(nullptr);
    EXPECT_TRUE(reader.feed(std::string("data: ") + data + "\n\n")) << data;
    EXPECT_FALSE(reader.feed("data: [DONE]\n\n"));
    EXPECT_TRUE(reader.finish().has_value()) << data;
  }
  for (const char* data : {"{", "\xff", "{\"error\":{}}", "nonsense"}) {
    AnswerReader reader(nullptr);
    EXPECT_FALSE(reader.feed(std::string("data: ") + data + "\n\n")) << data;
    EXPECT_FALSE(reader.finish().has_value()) << data;
  }
}

TEST(RequestBody, IsGreedyUnlessAnOptionAsksForADraw) {
  ChatRequest request{{{"system", "s"}, {"user", "u\xff"}}, {}, true};
  json body = json::parse(request_body(request));
  EXPECT_EQ(body["temperature"], 0);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["ductl_token_times"], true);
  EXPECT_EQ(body["messages"][1], (json{{"role", "user"}, {"content", "u\ufffd"}}));
  EXPECT_FALSE(body.contains("top_p"));
  request.sampling.top_k = 40;
  body = json::parse(request_body(request));
  EXPECT_FALSE(body.contains("temperature"));
  EXPECT_EQ(body["top_k"], 40);
  request.sampling = {0.5, 0.9, 0.1, 1.1, 3, 7, 100};
  body = json::parse(request_body(request));
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["min_p"], 0.1);
  EXPECT_EQ(body["seed"], 7);
  EXPECT_EQ(body["max_tokens"], 100);
  EXPECT_EQ(body["repetition_penalty"], 1.1);
}

TEST(ErrorOfBody, KeepsTheEnginesReason) {
  const Error loading = error_of_body(503, "{\"error\":{\"message\":\"loading\",\"stage\":\"reading weights\",\"next\":null}}");
  EXPECT_EQ(loading.code, ErrorCode::kEngineUnreachable);
  EXPECT_THAT(loading.message, HasSubstr("reading weights"));
  EXPECT_EQ(error_of_body(400, "{\"error\":{\"message\":\"top_p is 7\",\"param\":\"top_p\"}}").code, ErrorCode::kRequestValue);
  EXPECT_EQ(error_of_body(400, "{\"error\":{\"message\":\"m\",\"ductl_code\":\"D0402\"}}").code, ErrorCode::kContextLength);
  EXPECT_THAT(error_of_body(404, "<html>").message, HasSubstr("HTTP 404"));
  EXPECT_THAT(error_of_body(500, std::string(10000, 'x')).message.size(), ::testing::Lt(400u));
}

TEST(ChatCommandLine, CommandsAreToldFromMessages) {
  EXPECT_EQ(parse_chat_command(" \t"), ChatCommand::Empty);
  EXPECT_EQ(parse_chat_command(" /reset "), ChatCommand::Reset);
  EXPECT_EQ(parse_chat_command("/stats"), ChatCommand::Stats);
  EXPECT_EQ(parse_chat_command("/help"), ChatCommand::Help);
  EXPECT_EQ(parse_chat_command("/quit"), ChatCommand::Quit);
  EXPECT_EQ(parse_chat_command("/sats"), ChatCommand::Unknown);
  EXPECT_EQ(parse_chat_command("/usr/bin is full"), ChatCommand::None);
  EXPECT_EQ(parse_chat_command("what is /reset?"), ChatCommand::None);
}

TEST(ChatSession, SendsAllThatWasSaid) {
  ChatSession session("be kind", {});
  Answer answer;
  answer.text = "hello", answer.output_tokens = 2, answer.stats_line = "time 1s";
  session.take("hi", answer);
  const ChatRequest request = session.request("and now?");
  ASSERT_EQ(request.messages.size(), 4u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[2].content, "hello");
  EXPECT_EQ(request.messages[3].content, "and now?");
  EXPECT_THAT(session.stats_text(), HasSubstr("1 answer, 2 tokens"));
  session.reset();
  EXPECT_EQ(session.request("x").messages.size(), 2u);
}

TEST(ChatSession, AMessageWithoutAnyAnswerWasNeverSaid) {
  ChatSession session("", {});
  Answer stopped;
  stopped.stopped = true;
  session.take("hi", stopped);
  EXPECT_TRUE(session.messages().empty());
  stopped.text = "hal";
  session.take("hi", stopped);
  EXPECT_EQ(session.messages().size(), 2u);
}

} // namespace
} // namespace ductl::commands
