// What isn't understood is refused, and by its name.
#include "tests/tokenizer/tiny_tokenizer.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>

namespace ductl::engine {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Case {
  const char* name;
  std::function<void(json&)> change;
  const char* says;
};

class Refusal : public testing::TestWithParam<Case> {};

TEST_P(Refusal, NamesWhatIsWrong) {
  json file = TinyTokenizer{.merges = {{"a", "b"}}, .special = {"<s>"}}.json();
  GetParam().change(file);
  const auto result = parse_tokenizer(file.dump(), "here/tokenizer.json");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kTokenizer);
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().says));
  EXPECT_EQ(result.error().place, "here/tokenizer.json");
  EXPECT_FALSE(result.error().next.empty());
}

json split(const char* regex, const char* behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", invert}};
}
json sequence(json first) {
  return {{"type", "Sequence"},
          {"pretokenizers", {std::move(first), {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

const Case kCases[] = {
    {"WordPiece", [](json& f) { f["model"]["type"] = "WordPiece"; }, "\"WordPiece\""},
    {"ByteFallback", [](json& f) { f["model"]["byte_fallback"] = true; }, "byte_fallback"},
    {"Dropout", [](json& f) { f["model"]["dropout"] = 0.1; }, "dropout"},
    {"WordEnds", [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix"},
    {"Prefixes", [](json& f) { f["model"]["continuing_subword_prefix"] = "##"; }, "continuing_subword_prefix"},
    {"FusedUnknowns", [](json& f) { f["model"]["fuse_unk"] = true; }, "fuse_unk"},
    {"OtherNormalizer",
     [](json& f) {
       f["normalizer"] = {{"type", "Lowercase"}};
     },
     "\"Lowercase\""},
    {"NormalizerInASequence",
     [](json& f) {
       f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Strip"}}}}};
     },
     "normalizer.normalizers[1]: the normalizer \"Strip\""},
    {"OtherPreTokenizer",
     [](json& f) {
       f["pre_tokenizer"] = {{"type", "Metaspace"}};
     },
     "\"Metaspace\""},
    {"NoPreTokenizer", [](json& f) { f["pre_tokenizer"] = nullptr; }, "pre_tokenizer"},
    {"NoByteLevel",
     [](json& f) {
       f["pre_tokenizer"] = {{"type", "Digits"}};
     },
     "no ByteLevel"},
    {"PrefixSpace", [](json& f) { f["pre_tokenizer"]["add_prefix_space"] = true; }, "add_prefix_space"},
    {"SplitRemoved", [](json& f) { f["pre_tokenizer"] = sequence(split("a", "Removed")); }, "\"Removed\""},
    {"SplitInverted", [](json& f) { f["pre_tokenizer"] = sequence(split("a", "Isolated", true)); }, "invert"},
    {"BadPattern", [](json& f) { f["pre_tokenizer"] = sequence(split("a(")); }, "not understood at its byte 2"},
    {"StepsAfterByteLevel",
     [](json& f) {
       f["pre_tokenizer"] = sequence(json{{"type", "ByteLevel"}, {"add_prefix_space", false}});
     },
     "ByteLevel is not the last"},
    {"OtherDecoder",
     [](json& f) {
       f["decoder"] = {{"type", "WordPiece"}};
     },
     "decoder"},
    {"SingleWord", [](json& f) { f["added_tokens"][0]["single_word"] = true; }, "\"single_word\""},
    {"LeftStrip", [](json& f) { f["added_tokens"][0]["lstrip"] = true; }, "\"lstrip\""},
    {"RightStrip", [](json& f) { f["added_tokens"][0]["rstrip"] = true; }, "\"rstrip\""},
    {"EmptyAddedToken", [](json& f) { f["added_tokens"][0]["content"] = ""; }, "without text"},
    {"AddedTokenTwice", [](json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); }, "given twice"},
    {"AddedTokenWithAForeignId", [](json& f) { f["added_tokens"][0]["id"] = 65; }, "belongs to another token"},
    {"AddedTokenWithTwoIds", [](json& f) { f["model"]["vocab"]["<s>"] = 999; }, "999 in the vocabulary"},
    {"AddedTokenOfOneByte",
     [](json& f) {
       f["added_tokens"][0] = {{"id", 97}, {"content", "a"}};
     },
     "single byte"},
    {"IdTwice", [](json& f) { f["model"]["vocab"]["xyz"] = 97; }, "given to two tokens"},
    {"IdNegative", [](json& f) { f["model"]["vocab"]["xyz"] = -1; }, "outside 0"},
    {"IdHuge", [](json& f) { f["model"]["vocab"]["xyz"] = 1e9; }, "not an integer"},
    {"IdBeyond", [](json& f) { f["model"]["vocab"]["xyz"] = std::uint64_t{1} << 63; }, "outside 0"},
    {"MergeUnknown", [](json& f) { f["model"]["merges"].push_back("b c"); }, "model.merges[1]: the token \"bc\""},
    {"MergeOfThree", [](json& f) { f["model"]["merges"].push_back("a b c"); }, "not two tokens"},
    {"MergeOfNumbers",
     [](json& f) {
       f["model"]["merges"].push_back({1, 2});
     },
     "neither"},
    {"NoModel", [](json& f) { f.erase("model"); }, "\"model\" is missing"},
    {"NoVocabulary", [](json& f) { f["model"].erase("vocab"); }, "\"vocab\" is missing"},
    {"AList", [](json& f) { f = json::array(); }, "not a JSON object"},
};

INSTANTIATE_TEST_SUITE_P(Of, Refusal, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(FileRefusal, OfAFileThatIsCutShort) {
  const std::string whole = TinyTokenizer{}.json().dump();
  const auto result = parse_tokenizer(std::string_view(whole).substr(0, whole.size() / 2), "here");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("not valid JSON"));
}

TEST(FileRefusal, OfAFolderWithoutTheFileNamesThePath) {
  const auto result = load_tokenizer("/nowhere/at-all");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().place, "/nowhere/at-all/tokenizer.json");
}

} // namespace
} // namespace ductl::engine
