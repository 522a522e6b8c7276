// A conversation being had: its messages, and what was counted. No I/O.
#pragma once

#include "ductl/commands/chat_api.hpp"

#include <string>
#include <string_view>

namespace ductl::commands {

enum class ChatCommand { None /* a message */, Empty, Reset, Stats, Help, Quit, Unknown };
[[nodiscard]] ChatCommand parse_chat_command(std::string_view line);
[[nodiscard]] std::string chat_help();

class ChatSession {
public:
  ChatSession(std::string system, ChatSampling sampling);
  void reset(); // forget all but the system message

  // The request for `message` after all that was said. The message counts as said only once an answer is taken.
  [[nodiscard]] ChatRequest request(const std::string& message) const;
  // A stopped answer counts as far as it went; without any text the message was never said.
  void take(const std::string& message, const Answer& answer);

  [[nodiscard]] std::string stats_text() const;
  [[nodiscard]] const std::vector<ChatMessage>& messages() const { return messages_; }

private:
  std::string system_;
  ChatSampling sampling_;
  std::vector<ChatMessage> messages_;
  std::string last_stats_;
  int answers_ = 0;
  long output_tokens_ = 0;
};

} // namespace ductl::commands
