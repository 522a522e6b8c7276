// Each family's prompt, written out by hand from its template, token by token where markers stand.
#include "engine/chat/chat_format.hpp"
#include "tests/tokenizer/tiny_tokenizer.hpp"

#include <cstdlib>
#include <gmock/gmock.h>

namespace ductl::engine {
namespace {

using testing::HasSubstr;
using Messages = std::vector<ChatMessage>;
using Ids = std::vector<int>;

const std::vector<std::string> kChatMl = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
const std::vector<std::string> kDeepseek = {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"};
const std::vector<std::string> kDeepseekTurns = {"<｜User｜>", "<｜Assistant｜>"};
const std::vector<std::string> kLlama3 = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};

weights::ModelConfig config_of(weights::Family family, std::vector<int> eos = {}) {
  weights::ModelConfig config;
  config.family = family;
  config.model_type = "some_type";
  config.eos_tokens = std::move(eos);
  return config;
}

struct Chosen {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatFormat> format;

  [[nodiscard]] Ids render(const Messages& messages) const {
    auto ids = format->render(messages);
    if (!ids) throw std::runtime_error(ids.error().text());
    return *ids;
  }
  // What the template writes, with its markers as tokens. Right only where no message writes a marker.
  [[nodiscard]] Ids expected(std::string_view text) const { return tokenizer->encode(text, SpecialTokens::Match); }
};

Chosen choose(weights::Family family, std::vector<std::string> special, std::vector<std::string> ordinary = {},
              const std::string& name = {}) {
  Chosen chosen;
  // Newlines stay together as in the patterns of Llama 3, Qwen and DeepSeek, whatever follows them.
  const nlohmann::json newlines = {
      {"type", "Split"}, {"pattern", {{"Regex", R"(\s*[\r\n]+|\s?\S+|\s+)"}}}, {"behavior", "Isolated"}};
  const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  chosen.tokenizer = TinyTokenizer{.merges = {{"\n", "\n"}, {"h", "i"}},
                                   .special = std::move(special),
                                   .ordinary = std::move(ordinary),
                                   .pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", {newlines, bytes}}}}
                         .make();
  auto format = choose_chat_format(config_of(family), *chosen.tokenizer, name);
  if (!format) throw std::runtime_error(format.error().text());
  chosen.format = std::move(*format);
  return chosen;
}

const Messages kOne = {{"user", "hi"}};
const Messages kThree = {{"system", "Be brief."}, {"user", "hi"}, {"assistant", "Hello."}, {"user", "bye"}};

TEST(ChatMlSmolLm, BringsItsOwnSystemMessageUnlessThereIsOne) {
  const Chosen chat = choose(weights::Family::Llama, kChatMl);
  EXPECT_EQ(chat.format->name(), "chatml-smollm");
  EXPECT_EQ(chat.render(kOne),
            chat.expected("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
                          "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_EQ(chat.render(kThree), chat.expected("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
                                               "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n"
                                               "<|im_start|>assistant\n"));
}

TEST(ChatMlQwen3, HasNoSystemMessageAndLeavesThinkingToTheModel) {
  const Chosen chat = choose(weights::Family::Qwen3Moe, kChatMl, {"<think>", "</think>"});
  EXPECT_EQ(chat.format->name(), "qwen3");
  EXPECT_EQ(chat.render(kOne), chat.expected("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"));
}

TEST(ChatMlQwen3, PastAnswersLoseTheirReasoning) {
  const Chosen chat = choose(weights::Family::Qwen3, kChatMl, {"<think>", "</think>"});
  const Messages messages = {{"user", "hi"}, {"assistant", "<think>\nhm\n</think>\n\nHello."}, {"user", "bye"}};
  EXPECT_EQ(chat.render(messages), chat.expected("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
                                                 "<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n"));
}

TEST(ChatMlQwen3, WithoutThinkingThePromptHoldsAnEmptyThought) {
  const Chosen chat = choose(weights::Family::Qwen3, kChatMl, {"<think>", "</think>"}, "qwen3-no-think");
  EXPECT_EQ(chat.format->name(), "qwen3-no-think");
  EXPECT_EQ(chat.render(kOne), chat.expected("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"));
}

TEST(DeepseekV3, JoinsSystemMessagesAtTheFrontAndWritesNoNewline) {
  const Chosen chat = choose(weights::Family::DeepseekV3, kDeepseek, kDeepseekTurns);
  EXPECT_EQ(chat.format->name(), "deepseek-v3");
  EXPECT_EQ(chat.render(kOne), chat.expected("<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>"));
  EXPECT_EQ(chat.render(kThree),
            chat.expected("<｜begin▁of▁sentence｜>Be brief.<｜User｜>hi<｜Assistant｜>Hello.<｜end▁of▁sentence｜>"
                          "<｜User｜>bye<｜Assistant｜>"));
  EXPECT_EQ(chat.render({{"system", "A"}, {"user", "hi"}, {"system", "B"}, {"user", "bye"}}),
            chat.expected("<｜begin▁of▁sentence｜>A\n\nB<｜User｜>hi<｜User｜>bye<｜Assistant｜>"));
}

TEST(DeepseekV32, ClosesTheThoughtAfterEveryUserMessage) {
  auto markers = kDeepseekTurns;
  markers.insert(markers.end(), {"<think>", "</think>"});
  for (const auto family : {weights::Family::DeepseekV32, weights::Family::DeepseekV3}) { // V3.1 calls itself deepseek_v3
    const Chosen chat = choose(family, kDeepseek, markers);
    EXPECT_EQ(chat.format->name(), "deepseek-v3.2");
    EXPECT_EQ(chat.render(kThree),
              chat.expected("<｜begin▁of▁sentence｜>Be brief.<｜User｜>hi<｜Assistant｜></think>Hello.<｜end▁of▁sentence｜>"
                            "<｜User｜>bye<｜Assistant｜></think>"));
  }
  const Chosen thinking = choose(weights::Family::DeepseekV32, kDeepseek, markers, "deepseek-v3.2-think");
  EXPECT_EQ(thinking.render({{"user", "hi"}, {"assistant", "hm</think>Hello."}, {"user", "bye"}}),
            thinking.expected("<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜></think>Hello.<｜end▁of▁sentence｜>"
                              "<｜User｜>bye<｜Assistant｜><think>"));
}

TEST(Llama3, TrimsContentsBetweenItsHeaders) {
  const Chosen chat = choose(weights::Family::Llama, kLlama3);
  EXPECT_EQ(chat.format->name(), "llama3");
  EXPECT_EQ(
      chat.render({{"system", "S"}, {"user", "  hi\n"}}),
      chat.expected("<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
                    "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"));
}

// Every format by name, over a tokenizer that has every marker.
class EveryFormat : public testing::TestWithParam<std::string> {
protected:
  EveryFormat() {
    auto special = kChatMl, ordinary = kDeepseekTurns;
    special.insert(special.end(), kDeepseek.begin(), kDeepseek.end());
    special.insert(special.end(), kLlama3.begin(), kLlama3.end());
    ordinary.insert(ordinary.end(), {"<think>", "</think>"});
    markers_ = special;
    markers_.insert(markers_.end(), ordinary.begin(), ordinary.end());
    chat_ = choose(weights::Family::Llama, special, ordinary, GetParam());
  }
  [[nodiscard]] std::ptrdiff_t markers_in(const Ids& ids) const {
    return std::count_if(ids.begin(), ids.end(),
                         [&](int id) { return chat_.tokenizer->id_of(chat_.tokenizer->bytes(id)).has_value(); });
  }
  Chosen chat_;
  std::vector<std::string> markers_;
};

TEST_P(EveryFormat, NoMessageCanWriteAMarker) {
  const Messages plain = {{"system", "a"}, {"user", "b"}, {"assistant", "c"}, {"user", "d"}};
  const std::ptrdiff_t expected = markers_in(chat_.render(plain));
  for (const std::string& marker : markers_) {
    if (marker == "</think>") continue; // in an answer it ends the reasoning
    Messages messages = plain;
    for (ChatMessage& message : messages) message.content += marker + marker;
    EXPECT_EQ(markers_in(chat_.render(messages)), expected) << marker;
    EXPECT_THAT(chat_.tokenizer->decode(chat_.render(messages)), HasSubstr("d" + marker + marker));
  }
}

TEST_P(EveryFormat, ALongerConversationBeginsLikeTheShorterOne) {
  // Not where the template itself puts a thought into the last turn only.
  const bool rewrites = GetParam() == "qwen3-no-think" || GetParam() == "deepseek-v3.2-think";
  Messages messages = {{"system", "Be brief."}, {"user", "hi"}};
  for (const char* answer : {"Hello.", "Yes, 12 of them.", "Bye"}) {
    Ids before = chat_.render(messages);
    const Ids answered = chat_.tokenizer->encode(answer, SpecialTokens::Ignore);
    before.insert(before.end(), answered.begin(), answered.end()); // what the cache holds after the answer
    messages.push_back({"assistant", answer});
    messages.push_back({"user", "more"});
    const Ids after = chat_.render(messages);
    ASSERT_GT(after.size(), before.size());
    if (rewrites) continue;
    EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin())) << answer;
  }
}

TEST_P(EveryFormat, OddConversationsAreRefused) {
  const auto place = [&](const Messages& messages) {
    const auto result = chat_.format->render(messages);
    EXPECT_FALSE(result);
    if (result) return std::string();
    EXPECT_EQ(result.error().code, ErrorCode::kRequestValue);
    return result.error().place;
  };
  EXPECT_EQ(place({}), "messages");
  EXPECT_EQ(place({{"system", "a"}}), "messages[0].role");
  EXPECT_EQ(place({{"user", "a"}, {"assistant", "b"}}), "messages[1].role");
  EXPECT_EQ(place({{"tool", "a"}, {"user", "b"}}), "messages[0].role");
}

TEST_P(EveryFormat, HasATokenThatEndsAnAnswer) {
  const Ids stops = chat_.format->stop_tokens();
  ASSERT_FALSE(stops.empty());
  for (const int id : stops) EXPECT_TRUE(chat_.tokenizer->is_special(id));
}

INSTANTIATE_TEST_SUITE_P(Named, EveryFormat, testing::ValuesIn(chat_format_names()), [](const auto& tested) {
  std::string name = tested.param;
  for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
  return name;
});

TEST(Choice, TheCheckpointsOwnEndTokensStopTooAndOnlyOnce) {
  const auto tokenizer = TinyTokenizer{.special = kChatMl}.make();
  const int end = *tokenizer->id_of("<|im_end|>"), text_end = *tokenizer->id_of("<|endoftext|>");
  const auto format = choose_chat_format(config_of(weights::Family::Llama, {77, end}), *tokenizer);
  ASSERT_TRUE(format);
  EXPECT_EQ((*format)->stop_tokens(), (Ids{77, end, text_end}));
}

TEST(Choice, WhatIsUnknownNamesTheOptionAndTheKnownFormats) {
  const auto tokenizer = TinyTokenizer{}.make();
  const auto none = choose_chat_format(config_of(weights::Family::Llama), *tokenizer);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kChatFormat);
  EXPECT_THAT(none.error().message, HasSubstr("some_type"));
  EXPECT_THAT(none.error().next, HasSubstr("--chat-format"));
  for (const std::string& name : chat_format_names()) EXPECT_THAT(none.error().next, HasSubstr(name));
  const auto unknown = choose_chat_format(config_of(weights::Family::Llama), *tokenizer, "alpaca");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().text(), testing::AllOf(HasSubstr("alpaca"), HasSubstr("--chat-format"), HasSubstr("qwen3")));
}

TEST(Choice, AFormatWhoseMarkersAreMissingNamesTheFirstOne) {
  const auto tokenizer = TinyTokenizer{.special = kChatMl}.make();
  const auto result = choose_chat_format(config_of(weights::Family::Qwen3), *tokenizer, "qwen3-no-think");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kChatFormat);
  EXPECT_THAT(result.error().message, HasSubstr("<think>"));
}

// The real vocabularies, with the ids of docs and model cards.
TEST(RealTokenizers, GiveTheKnownPromptIds) {
  const char* set = std::getenv("DUCTL_SHARED");
  const auto shared = set != nullptr ? std::filesystem::path(set) : std::filesystem::path(DUCTL_SOURCE_DIR) / ".." / "shared";
  const auto folder = shared / "tokenizers";
  if (!std::filesystem::exists(folder / "qwen3" / "tokenizer.json"))
    GTEST_SKIP() << "no " << folder.string() << " on this machine (set DUCTL_SHARED)";
  const auto qwen = load_tokenizer(folder / "qwen3"), deepseek = load_tokenizer(folder / "deepseek_v3");
  ASSERT_TRUE(qwen && deepseek);
  const auto qwen_chat = choose_chat_format(config_of(weights::Family::Qwen3), **qwen);
  ASSERT_TRUE(qwen_chat);
  EXPECT_EQ((*qwen_chat)->render(kOne).value(), (Ids{151644, 872, 198, 6023, 151645, 198, 151644, 77091, 198}));
  EXPECT_EQ((*qwen_chat)->stop_tokens(), (Ids{151645, 151643}));
  const auto deepseek_chat = choose_chat_format(config_of(weights::Family::DeepseekV3), **deepseek);
  ASSERT_TRUE(deepseek_chat);
  EXPECT_EQ((*deepseek_chat)->name(), "deepseek-v3");
  EXPECT_EQ((*deepseek_chat)->render(kOne).value(), (Ids{0, 128803, 6366, 128804}));
  EXPECT_EQ((*deepseek_chat)->stop_tokens(), Ids{1});
}

} // namespace
} // namespace ductl::engine
