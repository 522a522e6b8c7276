// Chat formats: how a conversation becomes tokens, one file a family (chatml_*.cpp, deepseek_*.cpp, ...).
//
// Roles and markers become special token ids directly; the text of messages is encoded with SpecialTokens::Ignore, so that
// no user text ever yields a special token. Immutable: any number of threads. A format refers to the tokenizer that it was
// chosen for, which must outlive it.
#pragma once

#include "engine/tokenizer/tokenizer.hpp"
#include "weights/model_config.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ductl::engine {

struct ChatMessage {
  std::string role; // system, user, assistant
  std::string content;
};

class ChatFormat {
public:
  virtual ~ChatFormat() = default;
  [[nodiscard]] virtual std::string_view name() const = 0; // one of chat_format_names()
  // The whole conversation and the generation prompt. An odd order of roles: kRequestValue. A longer conversation that begins
  // with an earlier one plus its answer begins with the same tokens wherever the family's template allows it.
  [[nodiscard]] virtual Expected<std::vector<int>> render(std::span<const ChatMessage> messages) const = 0;
  [[nodiscard]] virtual std::vector<int> stop_tokens() const = 0; // the format's own and the checkpoint's
};

// By model type and the tokenizer's special tokens, or by name. Unknown: kChatFormat, naming --chat-format and the known ones.
[[nodiscard]] Expected<std::unique_ptr<ChatFormat>> choose_chat_format(const weights::ModelConfig& config,
                                                                       const Tokenizer& tokenizer, const std::string& name = {});
[[nodiscard]] std::vector<std::string> chat_format_names();

} // namespace ductl::engine
