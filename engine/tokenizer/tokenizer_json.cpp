// Reads tokenizer.json. What it does not understand it refuses by name: a tokenizer that is nearly right gives a model that
// is nearly right, and nobody notices for weeks.
#include "engine/tokenizer/bpe_tokenizer.hpp"
#include "engine/tokenizer/byte_alphabet.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace ductl::engine {
namespace {

using nlohmann::json;

constexpr int kIdMax = (1 << 22) - 1;
constexpr std::size_t kFileBytesMax = 256u << 20;
// What ByteLevel cuts by unless told not to (GPT-2).
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Refusal { // thrown within this file only
  std::string message;
  std::string where; // path of the value in the file
};

[[noreturn]] void refuse(const std::string& where, std::string message) { throw Refusal{std::move(message), where}; }

const json* find(const json& object, const char* key) { // nullptr where absent or null
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const json& need(const json& object, const char* key, const std::string& where) {
  if (!object.is_object()) refuse(where, "is not an object");
  const json* value = find(object, key);
  if (value == nullptr) refuse(where, fmt::format("\"{}\" is missing", key));
  return *value;
}

std::string text_of(const json& object, const char* key, const std::string& where) {
  const json& value = need(object, key, where);
  if (!value.is_string()) refuse(where + "." + key, "is not a string");
  return value.get<std::string>();
}

bool flag_of(const json& object, const char* key, bool otherwise, const std::string& where) {
  const json* value = find(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(where + "." + key, "is not true or false");
  return value->get<bool>();
}

int id_of(const json& value, const std::string& where) {
  if (!value.is_number_integer()) refuse(where, "a token's id is not an integer");
  const auto id = value.get<std::int64_t>();
  if (id < 0 || id > kIdMax) refuse(where, fmt::format("the token id {} is outside 0 to {}", id, kIdMax));
  return static_cast<int>(id);
}

// --- normalizer ---

bool wants_nfc(const json& normalizer, const std::string& where) {
  const std::string type = text_of(normalizer, "type", where);
  if (type == "NFC") return true;
  if (type != "Sequence") refuse(where, fmt::format("the normalizer \"{}\" is not supported", type));
  const json& list = need(normalizer, "normalizers", where);
  if (!list.is_array()) refuse(where + ".normalizers", "is not a list");
  bool nfc = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("{}.normalizers[{}]", where, i);
    if (text_of(list[i], "type", at) == "Sequence") refuse(at, "a Sequence within a Sequence is not supported");
    nfc = wants_nfc(list[i], at) || nfc;
  }
  return nfc;
}

// --- pre_tokenizer ---

struct PreTokenizerReader {
  PreTokenizer result;
  bool ended = false; // by ByteLevel, which turns text into bytes

  void add(const std::string& pattern, PreTokenizer::Syntax syntax, const std::string& where) {
    if (auto ok = result.add(pattern, syntax); !ok) refuse(where, ok.error().message);
  }

  void split(const json& step, const std::string& where) {
    const std::string behavior = text_of(step, "behavior", where);
    if (behavior != "Isolated") refuse(where, fmt::format("Split with the behavior \"{}\" is not supported", behavior));
    if (flag_of(step, "invert", false, where)) refuse(where, "Split with \"invert\" is not supported");
    const json& pattern = need(step, "pattern", where);
    if (!pattern.is_object()) refuse(where + ".pattern", "is not an object");
    if (find(pattern, "Regex") != nullptr) {
      add(text_of(pattern, "Regex", where + ".pattern"), PreTokenizer::Syntax::Regex, where + ".pattern");
    } else {
      add(text_of(pattern, "String", where + ".pattern"), PreTokenizer::Syntax::Literal, where + ".pattern");
    }
  }

  void step(const json& step, const std::string& where) {
    if (ended) refuse(where, "ByteLevel is not the last pre-tokenizer");
    const std::string type = text_of(step, "type", where);
    if (type == "Split") {
      split(step, where);
    } else if (type == "Digits") {
      add(flag_of(step, "individual_digits", false, where) ? R"(\p{N})" : R"(\p{N}+)", PreTokenizer::Syntax::Regex, where);
    } else if (type == "ByteLevel") {
      if (flag_of(step, "add_prefix_space", true, where)) refuse(where, "ByteLevel with \"add_prefix_space\" is not supported");
      if (flag_of(step, "use_regex", true, where)) add(kGpt2Pattern, PreTokenizer::Syntax::Regex, where);
      ended = true;
    } else {
      refuse(where, fmt::format("the pre-tokenizer \"{}\" is not supported", type));
    }
  }

  void all(const json& root, const std::string& where) {
    if (text_of(root, "type", where) == "Sequence") {
      const json& list = need(root, "pretokenizers", where);
      if (!list.is_array()) refuse(where + ".pretokenizers", "is not a list");
      for (std::size_t i = 0; i < list.size(); ++i) step(list[i], fmt::format("{}.pretokenizers[{}]", where, i));
    } else {
      step(root, where);
    }
    if (!ended) refuse(where, "there is no ByteLevel pre-tokenizer; only byte-level BPE is supported");
  }
};

// --- added_tokens ---

AddedToken added_token(const json& value, const std::string& where) {
  AddedToken token;
  token.content = text_of(value, "content", where);
  token.id = id_of(need(value, "id", where), where + ".id");
  token.special = flag_of(value, "special", false, where);
  token.normalized = flag_of(value, "normalized", !token.special, where);
  if (token.content.empty()) refuse(where, "an added token without text");
  for (const char* key : {"single_word", "lstrip", "rstrip"}) {
    if (flag_of(value, key, false, where)) {
      refuse(where, fmt::format("the added token \"{}\" has \"{}\", which is not supported", token.content, key));
    }
  }
  return token;
}

std::vector<AddedToken> added_tokens(const json& root) {
  std::vector<AddedToken> tokens;
  const json* list = find(root, "added_tokens");
  if (list == nullptr) return tokens;
  if (!list->is_array()) refuse("added_tokens", "is not a list");
  std::unordered_set<std::string> contents;
  std::unordered_set<int> ids;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string where = fmt::format("added_tokens[{}]", i);
    tokens.push_back(added_token((*list)[i], where));
    const AddedToken& token = tokens.back();
    if (!contents.insert(token.content).second)
      refuse(where, fmt::format("the added token \"{}\" is given twice", token.content));
    if (!ids.insert(token.id).second) refuse(where, fmt::format("the id {} is given to two added tokens", token.id));
  }
  return tokens;
}

// --- model ---

void check_model(const json& model) {
  const std::string where = "model";
  if (const std::string type = text_of(model, "type", where); type != "BPE") {
    refuse(where, fmt::format("the model type \"{}\" is not supported, only BPE", type));
  }
  for (const char* key : {"byte_fallback", "fuse_unk"}) {
    if (flag_of(model, key, false, where)) refuse(where, fmt::format("\"{}\" is not supported", key));
  }
  if (const json* dropout = find(model, "dropout"); dropout != nullptr && *dropout != 0) {
    refuse(where, "\"dropout\" is not supported");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (const json* affix = find(model, key); affix != nullptr && *affix != "") {
      refuse(where, fmt::format("\"{}\" is not supported", key));
    }
  }
}

class VocabularyReader {
public:
  explicit VocabularyReader(TokenizerParts& parts) : parts_(parts) {}

  void vocabulary(const json& vocab) {
    if (!vocab.is_object()) refuse("model.vocab", "is not an object");
    ids_.reserve(vocab.size());
    for (const auto& [letters, value] : vocab.items()) {
      const int id = id_of(value, "model.vocab");
      if (!place(id, bytes_of_letters(letters).value_or(letters))) {
        refuse("model.vocab", fmt::format("the id {} is given to two tokens, one of them \"{}\"", id, letters));
      }
      ids_.emplace(letters, id);
    }
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = ids_.find(letter_of_byte(static_cast<std::uint8_t>(byte)));
      parts_.byte_ids[static_cast<std::size_t>(byte)] = found == ids_.end() ? -1 : found->second;
    }
  }

  // An added token may repeat a token of the vocabulary, with its id.
  void added() {
    for (const AddedToken& token : parts_.added) {
      const auto known = ids_.find(token.content);
      if (known != ids_.end() && known->second != token.id) {
        refuse("added_tokens",
               fmt::format("\"{}\" has the id {} here and {} in the vocabulary", token.content, token.id, known->second));
      }
      if (known == ids_.end() && !place(token.id, token.content)) {
        refuse("added_tokens", fmt::format("the id {} of \"{}\" belongs to another token", token.id, token.content));
      }
      if (std::find(parts_.byte_ids.begin(), parts_.byte_ids.end(), token.id) != parts_.byte_ids.end()) {
        refuse("added_tokens",
               fmt::format("\"{}\" is a single byte of the vocabulary; user text could not avoid it", token.content));
      }
      parts_.bytes[static_cast<std::size_t>(token.id)] = token.content;
      added_ids_.insert(token.id);
    }
  }

  void merges(const json& list) {
    if (!list.is_array()) refuse("model.merges", "is not a list");
    parts_.merges.reserve(list.size());
    std::string joined;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto [left, right] = pair_of(list[i], i);
      joined.assign(left).append(right);
      const Bpe::Merge merge{known(left, i), known(right, i), known(joined, i), static_cast<std::uint32_t>(i)};
      if (!added_ids_.contains(merge.product)) parts_.merges.push_back(merge); // or text could become a marker by merging
    }
  }

private:
  bool place(int id, std::string bytes) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= parts_.bytes.size()) parts_.bytes.resize(at + 1);
    if (!parts_.bytes[at].empty()) return false;
    parts_.bytes[at] = std::move(bytes);
    return true;
  }

  static std::pair<std::string_view, std::string_view> pair_of(const json& merge, std::size_t index) {
    const auto where = [&] { return fmt::format("model.merges[{}]", index); };
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
    }
    if (!merge.is_string()) refuse(where(), "is neither \"a b\" nor [\"a\", \"b\"]");
    const std::string_view text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      refuse(where(), fmt::format("\"{}\" is not two tokens with a space between them", text));
    }
    return {text.substr(0, space), text.substr(space + 1)};
  }

  int known(std::string_view letters, std::size_t index) const {
    const auto found = ids_.find(letters);
    if (found == ids_.end()) {
      refuse(fmt::format("model.merges[{}]", index), fmt::format("the token \"{}\" is not in the vocabulary", letters));
    }
    return found->second;
  }

  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  TokenizerParts& parts_;
  std::unordered_map<std::string, int, Hash, std::equal_to<>> ids_; // by the file's letters
  std::unordered_set<int> added_ids_;
};

TokenizerParts read_parts(const json& root) {
  if (!root.is_object()) refuse("", "is not a JSON object");
  TokenizerParts parts;
  if (const json* normalizer = find(root, "normalizer")) parts.nfc = wants_nfc(*normalizer, "normalizer");
  PreTokenizerReader pre_tokenizer;
  pre_tokenizer.all(need(root, "pre_tokenizer", "tokenizer"), "pre_tokenizer");
  parts.pre_tokenizer = std::move(pre_tokenizer.result);
  if (const json* decoder = find(root, "decoder")) {
    const std::string type = text_of(*decoder, "type", "decoder");
    if (type != "ByteLevel") refuse("decoder", fmt::format("the decoder \"{}\" is not supported", type));
  }
  const json& model = need(root, "model", "tokenizer");
  check_model(model);
  parts.added = added_tokens(root);
  parts.whole_pieces = flag_of(model, "ignore_merges", false, "model");
  VocabularyReader reader(parts);
  reader.vocabulary(need(model, "vocab", "model"));
  reader.added();
  reader.merges(need(model, "merges", "model"));
  return parts;
}

} // namespace

Expected<std::unique_ptr<Tokenizer>> parse_tokenizer(std::string_view text, const std::string& place) {
  const char* next = "use a checkpoint whose tokenizer.json is byte-level BPE as docs/tokenizer.md describes it";
  try {
    const json root = json::parse(text);
    return std::make_unique<BpeTokenizer>(read_parts(root));
  } catch (const json::parse_error& error) {
    return fail(ErrorCode::kTokenizer, fmt::format("tokenizer.json is not valid JSON: {}", error.what()), place,
                "the file may be cut short; fetch it again");
  } catch (const json::exception& error) {
    return fail(ErrorCode::kTokenizer, fmt::format("tokenizer.json has an unexpected shape: {}", error.what()), place, next);
  } catch (const Refusal& refusal) {
    const std::string& where = refusal.where;
    return fail(ErrorCode::kTokenizer, where.empty() ? refusal.message : where + ": " + refusal.message, place, next);
  }
}

Expected<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer.json";
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : -1;
  if (size < 0 || static_cast<std::size_t>(size) > kFileBytesMax) {
    return fail(ErrorCode::kTokenizer, size < 0 ? "tokenizer.json cannot be read" : "tokenizer.json is larger than 256 MiB",
                file.string(), "the model's folder must hold the tokenizer.json of its checkpoint");
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(text.data(), size)) return fail(ErrorCode::kTokenizer, "tokenizer.json cannot be read", file.string());
  return parse_tokenizer(text, file.string());
}

} // namespace ductl::engine
