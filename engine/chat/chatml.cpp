#include "engine/chat/chatml.hpp"

namespace ductl::engine {

Expected<ChatMlMarkers> find_chatml(const Tokenizer& tokenizer, std::string_view format) {
  const auto found = Markers::find(tokenizer, format, {"<|im_start|>", "<|im_end|>"});
  if (!found) return tl::unexpected(found.error());
  return ChatMlMarkers{(*found)["<|im_start|>"], (*found)["<|im_end|>"], tokenizer.id_of("<|endoftext|>").value_or(-1)};
}

void chatml_turn(Prompt& prompt, const ChatMlMarkers& markers, std::string_view role, std::string_view content) {
  prompt.marker(markers.start).text(role).text("\n").text(content).marker(markers.end).text("\n");
}

void chatml_answer(Prompt& prompt, const ChatMlMarkers& markers) { prompt.marker(markers.start).text("assistant\n"); }

std::vector<int> chatml_stops(std::vector<int> stop_tokens, const ChatMlMarkers& markers) {
  stop_tokens = joined(std::move(stop_tokens), {markers.end});
  return markers.end_of_text < 0 ? stop_tokens : joined(std::move(stop_tokens), {markers.end_of_text});
}

} // namespace ductl::engine
