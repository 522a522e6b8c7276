// What the ChatML families share: <|im_start|>role\ncontent<|im_end|>\n.
#pragma once

#include "engine/chat/prompt.hpp"

namespace ductl::engine {

struct ChatMlMarkers {
  int start, end;       // <|im_start|>, <|im_end|>
  int end_of_text = -1; // <|endoftext|>, -1 where the tokenizer has none
};

[[nodiscard]] Expected<ChatMlMarkers> find_chatml(const Tokenizer& tokenizer, std::string_view format);

void chatml_turn(Prompt& prompt, const ChatMlMarkers& markers, std::string_view role, std::string_view content);
void chatml_answer(Prompt& prompt, const ChatMlMarkers& markers); // the generation prompt
[[nodiscard]] std::vector<int> chatml_stops(std::vector<int> stop_tokens, const ChatMlMarkers& markers);

} // namespace ductl::engine
