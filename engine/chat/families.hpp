// The families of chat formats; choose_chat_format() is the only one that asks for them.
//
// Each maker takes the tokens that end an answer by the checkpoint's word and adds its own. A marker that the tokenizer
// lacks: kChatFormat, naming it.
#pragma once

#include "engine/chat/chat_format.hpp"

namespace ductl::engine {

using MadeFormat = Expected<std::unique_ptr<ChatFormat>>;

enum class Thinking { On, Off };

[[nodiscard]] MadeFormat make_chatml_smollm(const Tokenizer& tokenizer, std::vector<int> stop_tokens);
[[nodiscard]] MadeFormat make_chatml_qwen3(const Tokenizer& tokenizer, std::vector<int> stop_tokens, Thinking thinking);
[[nodiscard]] MadeFormat make_deepseek_v3(const Tokenizer& tokenizer, std::vector<int> stop_tokens);
[[nodiscard]] MadeFormat make_deepseek_v32(const Tokenizer& tokenizer, std::vector<int> stop_tokens, Thinking thinking);
[[nodiscard]] MadeFormat make_llama3(const Tokenizer& tokenizer, std::vector<int> stop_tokens);

} // namespace ductl::engine
